// TransformerEncoderLayer: one layer of a transformer encoder, as torch.nn.TransformerEncoderLayer.
#pragma once

#include <tapehead/nn/transformer.h>

namespace tapehead::nn {

/// Names and defaults are PyTorch's. The layer is always batch first.
struct TransformerEncoderLayerOptions {
  std::int64_t d_model = 0;
  std::int64_t nhead = 0;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;  ///< of weights, activations and both branches, in training mode
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool norm_first = false;  ///< whether a branch's input is normed, or the sum after the branch
  bool bias = true;
  AttentionPath path = AttentionPath::composed;
  DType dtype = DType::f32;
};

/// With sa = self_attn and ff = linear2(dropout(activation(linear1))), each followed by dropout:
///   norm_first    x = src + sa(norm1(src)),    y = x + ff(norm2(x))     (pre-norm)
///   otherwise     x = norm1(src + sa(src)),    y = norm2(x + ff(x))     (post-norm)
/// (N, S, d_model) or (S, d_model) -> the same shape. The state dict is PyTorch's; initial values
/// follow the same distributions as there.
/// ValueError: sizes not positive, d_model not divisible by nhead, dropout outside [0, 1],
/// layer_norm_eps negative.
struct TransformerEncoderLayer : Module {
  explicit TransformerEncoderLayer(TransformerEncoderLayerOptions options,
                                   Generator& generator = default_generator());

  /// Mask and bias are those of MultiHeadAttention; from_torch_multihead_masks makes them from
  /// src_mask and src_key_padding_mask. ShapeError: as there.
  Tensor operator()(const Tensor& src, const Mask& mask = {}, const Tensor& bias = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerEncoderLayerOptions& options() const { return options_; }

  MultiHeadAttention self_attn;
  FeedForward feed_forward;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout1;
  Dropout dropout2;

 private:
  Tensor attend(const Tensor& x, const Mask& mask, const Tensor& bias) const;
  Tensor feed(const Tensor& x) const;

  TransformerEncoderLayerOptions options_;
};

}  // namespace tapehead::nn
