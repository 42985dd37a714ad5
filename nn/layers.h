// The layers that everything else is built from. Names, defaults and state dicts are PyTorch's.
#pragma once

#include <tapehead/nn/module.h>

namespace tapehead::nn {

/// Of Linear.
struct LinearOptions {
  std::int64_t in_features = 0;   ///< size of the last dim of x
  std::int64_t out_features = 0;  ///< size of the last dim of y
  bool bias = true;               ///< whether there is one
  DType dtype = DType::f32;       ///< of parameters and results
};

/// y = x weight^T + bias; x (..., in_features) -> (..., out_features). Both start from
/// linear_uniform. ValueError unless the sizes are positive.
struct Linear : Module {
  /// Initial values are drawn from `generator`.
  explicit Linear(LinearOptions options, Generator& generator = default_generator());
  /// With the defaults: Linear(2, 16).
  Linear(std::int64_t in_features, std::int64_t out_features)
      : Linear(LinearOptions{.in_features = in_features, .out_features = out_features}) {}

  /// ShapeError: another last dim. DTypeError: another dtype than weight's.
  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const LinearOptions& options() const { return options_; }  ///< as given

  Tensor weight;  ///< (out_features, in_features)
  Tensor bias;    ///< (out_features), or undefined

 private:
  LinearOptions options_;
};

/// Of Embedding.
struct EmbeddingOptions {
  std::int64_t num_embeddings = 0;               ///< rows
  std::int64_t embedding_dim = 0;                ///< features of a row
  std::optional<std::int64_t> padding_idx = {};  ///< a row that starts as 0 and gets no gradient
  double deviation = 1;                          ///< of the normal initial values
  DType dtype = DType::f32;                      ///< of parameters and results
};

/// Rows of weight by indices (i64, any shape) -> indices' shape + (embedding_dim). ValueError
/// unless the sizes are positive; IndexError for padding_idx outside [-num_embeddings,
/// num_embeddings).
struct Embedding : Module {
  /// Initial values are drawn from `generator`.
  explicit Embedding(EmbeddingOptions options, Generator& generator = default_generator());

  /// IndexError: an index that is no row. DTypeError: indices are not i64.
  Tensor operator()(const Tensor& indices) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const EmbeddingOptions& options() const { return options_; }  ///< as given

  Tensor weight;  ///< (num_embeddings, embedding_dim)

 private:
  EmbeddingOptions options_;
};

/// Of LayerNorm.
struct LayerNormOptions {
  Shape normalized_shape = {};  ///< the last dims, which are normalised together
  double eps = 1e-5;            ///< keeps the root away from 0
  bool bias = true;             ///< whether there is one
  DType dtype = DType::f32;     ///< of parameters and results
};

/// (x - mean) / sqrt(var + eps) * weight + bias over the last dims; weight starts as 1, bias as 0.
/// ValueError: no dims, a size that is not positive, or a negative eps.
struct LayerNorm : Module {
  /// Nothing is drawn.
  explicit LayerNorm(const LayerNormOptions& options);
  /// The same signature as the other modules, for clone().
  LayerNorm(const LayerNormOptions& options, Generator&) : LayerNorm(options) {}

  /// ShapeError: the last dims differ. DTypeError: another dtype than weight's.
  Tensor operator()(const Tensor& x) const;
  void visit(Visitor& visitor) override;
  std::string summary() const override;
  const LayerNormOptions& options() const { return options_; }  ///< as given

  Tensor weight;  ///< (normalized_shape)
  Tensor bias;  ///< or undefined

 private:
  LayerNormOptions options_;
};

/// Drops elements with probability p in training mode, with this thread's default generator; in
/// evaluation mode x itself, and nothing is drawn. ValueError: p outside [0, 1].
struct Dropout : Module {
  /// Drops with this probability.
  explicit Dropout(double probability);

  /// As tapehead::dropout.
  Tensor operator()(Tensor x) const;
  void visit(Visitor&) override {}
  std::string summary() const override;
  double probability() const { return probability_; }  ///< as given

 private:
  double probability_;
};

}  // namespace tapehead::nn
