// TransformerDecoderLayer: causal self-attention, attention to an encoder's output and a
// feed-forward part, as torch.nn.TransformerDecoderLayer.
#pragma once

#include <tapehead/nn/transformer_layer.h>

namespace tapehead::nn {

/// With sa = self_attn, ca = multihead_attn (queries from the sequence, keys and values from
/// `memory`) and ff as in TransformerEncoderLayer, each followed by dropout:
///   norm_first    x = tgt + sa(norm1(tgt)),  z = x + ca(norm2(x)),  y = z + ff(norm3(z))
///   otherwise     x = norm1(tgt + sa(tgt)),  z = norm2(x + ca(x)),  y = norm3(z + ff(z))
/// tgt (N, T, d_model), memory (N, S, d_model), or both without N -> tgt's shape. The state dict is
/// PyTorch's; initial values follow the same distributions as there. ValueError: as the encoder's.
struct TransformerDecoderLayer : Module {
  /// Initial values are drawn from `generator`.
  explicit TransformerDecoderLayer(TransformerLayerOptions options,
                                   Generator& generator = default_generator());

  /// Self-attention is causal unless told otherwise, where PyTorch's sees the future unless told
  /// otherwise: whoever passes a mask for padding combines it, Mask::causal() & padding.
  /// ShapeError: as MultiHeadAttention.
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const Mask& mask = Mask::causal(),
                    const Mask& memory_mask = {}) const;
  /// The next tokens of the sequence, as MultiHeadAttention::decode. The cache holds what
  /// self-attention saw; the keys and values of the memory are computed anew.
  Tensor decode(const Tensor& x, const Tensor& memory, KeyValueCache& cache, const Mask& mask = {},
                const Mask& memory_mask = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerLayerOptions& options() const { return options_; }  ///< as given

  /// @{
  /// The parts of the formula, in its order: each branch has its norm and its dropout.
  MultiHeadAttention self_attn;
  MultiHeadAttention multihead_attn;
  FeedForward feed_forward;
  LayerNorm norm1;
  LayerNorm norm2;
  LayerNorm norm3;
  Dropout dropout1;
  Dropout dropout2;
  Dropout dropout3;
  /// @}

 private:
  template <class Attend>
  Tensor run(const Tensor& tgt, const Tensor& memory, const Mask& memory_mask,
             Attend&& attend) const;

  TransformerLayerOptions options_;
};

}  // namespace tapehead::nn
