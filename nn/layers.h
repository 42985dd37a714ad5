// The layers that everything else is built from. Names, defaults and state dicts are PyTorch's.
#pragma once

#include <tapehead/nn/module.h>

namespace tapehead::nn {

struct LinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  DType dtype = DType::f32;
};

/// y = x weight^T + bias; x (..., in_features) -> (..., out_features). Both start from
/// linear_uniform. ValueError unless the sizes are positive.
struct Linear : Module {
  explicit Linear(LinearOptions options, Generator& generator = default_generator());
  Linear(std::int64_t in_features, std::int64_t out_features)
      : Linear(LinearOptions{.in_features = in_features, .out_features = out_features}) {}

  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const LinearOptions& options() const { return options_; }

  Tensor weight;  ///< (out_features, in_features)
  Tensor bias;    ///< (out_features), or undefined

 private:
  LinearOptions options_;
};

struct EmbeddingOptions {
  std::int64_t num_embeddings = 0;
  std::int64_t embedding_dim = 0;
  std::optional<std::int64_t> padding_idx = {};  ///< a row that starts as 0 and gets no gradient
  double deviation = 1;                          ///< of the normal initial values
  DType dtype = DType::f32;
};

/// Rows of weight by indices (i64, any shape) -> indices' shape + (embedding_dim). ValueError
/// unless the sizes are positive; IndexError for padding_idx outside [-num_embeddings,
/// num_embeddings).
struct Embedding : Module {
  explicit Embedding(EmbeddingOptions options, Generator& generator = default_generator());

  Tensor operator()(const Tensor& indices) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const EmbeddingOptions& options() const { return options_; }

  Tensor weight;  ///< (num_embeddings, embedding_dim)

 private:
  EmbeddingOptions options_;
};

struct LayerNormOptions {
  Shape normalized_shape = {};  ///< the last dims, which are normalised together
  double eps = 1e-5;
  bool bias = true;
  DType dtype = DType::f32;
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last dims; weight starts as 1, bias as 0.
/// ValueError: no dims, a size that is not positive, or a negative eps.
struct LayerNorm : Module {
  explicit LayerNorm(const LayerNormOptions& options);
  /// Nothing is drawn: the same signature as the other modules, for clone().
  LayerNorm(const LayerNormOptions& options, Generator&) : LayerNorm(options) {}

  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const LayerNormOptions& options() const { return options_; }

  Tensor weight;
  Tensor bias;  ///< or undefined

 private:
  LayerNormOptions options_;
};

/// Drops elements with probability p in training mode, with this thread's default generator; in
/// evaluation mode x itself, and nothing is drawn. ValueError: p outside [0, 1].
struct Dropout : Module {
  explicit Dropout(double probability);

  Tensor operator()(Tensor x) const;
  void visit(Visitor&) override {}
  std::string summary() const override;
  double probability() const { return probability_; }

 private:
  double probability_;
};

}  // namespace tapehead::nn
