// The blocks of a transformer.
#pragma once

#include <tapehead/nn/layers.h>
#include <tapehead/nn/multi_head_attention.h>

namespace tapehead::nn {

enum class Activation { gelu, gelu_tanh, relu };

/// "gelu", "gelu_tanh" or "relu"; ValueError otherwise.
Activation parse_activation(std::string_view text);
std::string_view to_string(Activation activation);

struct FeedForwardOptions {
  std::int64_t dim = 0;
  std::int64_t hidden = 0;  ///< width between the two maps
  Activation activation = Activation::gelu;
  double dropout = 0;  ///< after the activation, in training mode
  bool bias = true;
  DType dtype = DType::f32;
};

/// linear2(dropout(activation(linear1(x)))), for each position by itself: (..., dim) -> (..., dim).
struct FeedForward : Module {
  explicit FeedForward(FeedForwardOptions options, Generator& generator = default_generator());

  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const FeedForwardOptions& options() const { return options_; }

  Linear linear1;
  Dropout dropout;
  Linear linear2;

 private:
  FeedForwardOptions options_;
};

struct TransformerBlockOptions {
  std::int64_t dim = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;  ///< of the feed-forward part; 0 stands for 4 dim
  Activation activation = Activation::gelu;
  double dropout = 0;  ///< of weights, activations and both branches, in training mode
  double eps = 1e-5;   ///< of the norms
  bool bias = true;
  ProjectionInit init = ProjectionInit::linear_uniform;
  DType dtype = DType::f32;
};

/// x = x + attention(norm1(x)), then x + feed_forward(norm2(x)): pre-norm, as
/// torch.nn.TransformerEncoderLayer with norm_first, and under its names of parameters.
/// (N, T, dim) or (T, dim) -> the same shape.
struct TransformerBlock : Module {
  explicit TransformerBlock(TransformerBlockOptions options,
                            Generator& generator = default_generator());

  Tensor operator()(const Tensor& x, const Mask& mask = {}) const;
  /// The next tokens of a causal sequence, as MultiHeadAttention::decode.
  Tensor decode(const Tensor& x, KeyValueCache& cache, const Mask& mask = {}) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const TransformerBlockOptions& options() const { return options_; }

  MultiHeadAttention self_attn;
  FeedForward feed_forward;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout1;
  Dropout dropout2;

 private:
  Tensor add_branches(const Tensor& x, Tensor attention) const;

  TransformerBlockOptions options_;
};

}  // namespace tapehead::nn
