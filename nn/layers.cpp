#include <tapehead/nn/check.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/layers.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

namespace tapehead::nn {

// ---- Linear ------------------------------------------------------------------------------------

namespace {

Tensor initial_weight(const LinearOptions& options, Generator& generator) {
  check_positive("Linear", "in_features", options.in_features);
  check_positive("Linear", "out_features", options.out_features);
  return linear_uniform({options.out_features, options.in_features}, options.in_features,
                        options.dtype, generator);
}

}  // namespace

Linear::Linear(LinearOptions options, Generator& generator)
    : weight(parameter(initial_weight(options, generator))), options_(options) {
  if (options.bias)
    bias = parameter(
        linear_uniform({options.out_features}, options.in_features, options.dtype, generator));
}

Tensor Linear::operator()(const Tensor& x) const {
  const ModuleScope scope = enter();
  return linear(x, weight, bias);
}

void Linear::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

std::string Linear::summary() const {
  return "Linear(" + std::to_string(options_.in_features) + " -> " +
         std::to_string(options_.out_features) + (options_.bias ? ")" : ", no bias)");
}

// ---- Embedding ---------------------------------------------------------------------------------

namespace {

Tensor initial_weight(const EmbeddingOptions& options, Generator& generator) {
  check_positive("Embedding", "num_embeddings", options.num_embeddings);
  check_positive("Embedding", "embedding_dim", options.embedding_dim);
  const std::int64_t rows = options.num_embeddings;
  if (options.padding_idx && (*options.padding_idx < -rows || *options.padding_idx >= rows))
    throw IndexError("Embedding", "padding_idx " + std::to_string(*options.padding_idx) +
                                      " is outside the " + std::to_string(rows) + " rows");
  Tensor weight =
      normal({rows, options.embedding_dim}, 0, options.deviation, options.dtype, generator);
  if (options.padding_idx) fill_(select(weight, 0, *options.padding_idx), 0);
  return weight;
}

}  // namespace

Embedding::Embedding(EmbeddingOptions options, Generator& generator)
    : weight(parameter(initial_weight(options, generator))), options_(options) {}

Tensor Embedding::operator()(const Tensor& indices) const {
  const ModuleScope scope = enter();
  return embedding(weight, indices, options_.padding_idx);
}

void Embedding::visit(Visitor& visitor) { visitor("weight", weight); }

std::string Embedding::summary() const {
  return "Embedding(" + std::to_string(options_.num_embeddings) + " x " +
         std::to_string(options_.embedding_dim) + ")";
}

// ---- LayerNorm ---------------------------------------------------------------------------------

namespace {

const LayerNormOptions& checked(const LayerNormOptions& options) {
  if (options.normalized_shape.empty())
    throw ValueError("LayerNorm", "normalized_shape () must have at least one dim");
  for (const std::int64_t size : options.normalized_shape)
    check_positive("LayerNorm", "a size of normalized_shape", size);
  check_not_negative("LayerNorm", "eps", options.eps);
  return options;
}

}  // namespace

LayerNorm::LayerNorm(const LayerNormOptions& options)
    : weight(parameter(ones(checked(options).normalized_shape, options.dtype))), options_(options) {
  if (options.bias) bias = parameter(zeros(options.normalized_shape, options.dtype));
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const ModuleScope scope = enter();
  return layer_norm(x, options_.normalized_shape, weight, bias, options_.eps);
}

void LayerNorm::visit(Visitor& visitor) {
  visitor("weight", weight);
  visitor("bias", bias);
}

std::string LayerNorm::summary() const {
  return "LayerNorm" + to_string(options_.normalized_shape);
}

// ---- Dropout -----------------------------------------------------------------------------------

Dropout::Dropout(double probability) : probability_(probability) {
  check_probability("Dropout", "probability", probability);
}

Tensor Dropout::operator()(Tensor x) const {
  if (!training() || probability_ == 0) return x;
  const ModuleScope scope = enter();
  return dropout(std::move(x), probability_);
}

std::string Dropout::summary() const { return "Dropout(" + format_number(probability_) + ")"; }

}  // namespace tapehead::nn
