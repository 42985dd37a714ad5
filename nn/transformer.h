// TransformerEncoder and TransformerDecoder: stacks of layers, as PyTorch's of these names.
#pragma once

#include <tapehead/nn/decoder_layer.h>
#include <tapehead/nn/encoder_layer.h>

namespace tapehead::nn {

/// Of TransformerEncoder and TransformerDecoder.
struct TransformerStackOptions {
  TransformerLayerOptions layer = {};  ///< of every layer
  std::int64_t num_layers = 0;         ///< at least 1
  bool final_norm = false;  ///< a norm of the last layer's output; pre-norm stacks want one
};

/// The layers one after another, then the norm: (N, S, d_model) or (S, d_model) -> the same shape.
/// Parameters are "layers.0.self_attn.in_proj_weight" and so on, and "norm.weight"; unlike
/// PyTorch's, layers start from values of their own, not from copies of one layer.
/// ValueError: num_layers not positive, else as TransformerEncoderLayer.
struct TransformerEncoder : Module {
  /// Initial values are drawn from `generator`.
  explicit TransformerEncoder(TransformerStackOptions options,
                              Generator& generator = default_generator());

  /// Every layer gets the same mask and bias. ShapeError: as TransformerEncoderLayer.
  Tensor operator()(const Tensor& src, const Mask& mask = {}, const Tensor& bias = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerStackOptions& options() const { return options_; }  ///< as given

  std::vector<TransformerEncoderLayer> layers;  ///< in order
  std::optional<LayerNorm> norm;                ///< with final_norm

 private:
  TransformerStackOptions options_;
};

/// The same of decoder layers: tgt (N, T, d_model), memory (N, S, d_model), or both without N ->
/// tgt's shape.
struct TransformerDecoder : Module {
  /// Initial values are drawn from `generator`.
  explicit TransformerDecoder(TransformerStackOptions options,
                              Generator& generator = default_generator());

  /// Every layer gets the same masks. ShapeError: as TransformerDecoderLayer.
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const Mask& mask = Mask::causal(),
                    const Mask& memory_mask = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerStackOptions& options() const { return options_; }  ///< as given

  std::vector<TransformerDecoderLayer> layers;  ///< in order
  std::optional<LayerNorm> norm;                ///< with final_norm

 private:
  TransformerStackOptions options_;
};

}  // namespace tapehead::nn
