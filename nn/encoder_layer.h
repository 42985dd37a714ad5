// TransformerEncoderLayer: self-attention and a feed-forward part, as
// torch.nn.TransformerEncoderLayer; with a causal mask also the layer of a decoder without a
// memory, such as Gpt's.
#pragma once

#include <tapehead/nn/transformer_layer.h>

namespace tapehead::nn {

/// With sa = self_attn and ff = linear2(dropout(activation(linear1))), each followed by dropout:
///   norm_first    x = src + sa(norm1(src)),    y = x + ff(norm2(x))     (pre-norm)
///   otherwise     x = norm1(src + sa(src)),    y = norm2(x + ff(x))     (post-norm)
/// (N, S, d_model) or (S, d_model) -> the same shape. The state dict is PyTorch's; initial values
/// follow the same distributions as there.
/// ValueError: sizes not positive, d_model not divisible by nhead, dropout outside [0, 1],
/// layer_norm_eps negative.
struct TransformerEncoderLayer : Module {
  /// Initial values are drawn from `generator`.
  explicit TransformerEncoderLayer(TransformerLayerOptions options,
                                   Generator& generator = default_generator());

  /// Mask and bias are those of MultiHeadAttention; from_torch_multihead_masks makes them from
  /// src_mask and src_key_padding_mask. ShapeError: as there.
  Tensor operator()(const Tensor& src, const Mask& mask = {}, const Tensor& bias = {}) const;
  /// The next tokens of a causal sequence, as MultiHeadAttention::decode.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const Mask& mask = {},
                const Tensor& bias = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerLayerOptions& options() const { return options_; }  ///< as given

  /// @{
  /// The parts of the formula: each branch has its norm and its dropout.
  MultiHeadAttention self_attn;
  FeedForward feed_forward;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout1;
  Dropout dropout2;
  /// @}

 private:
  template <class Attend>
  Tensor run(const Tensor& src, Attend&& attend) const;

  TransformerLayerOptions options_;
};

}  // namespace tapehead::nn
