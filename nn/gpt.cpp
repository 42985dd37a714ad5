#include <tapehead/nn/check.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/views.h>

#include <algorithm>

namespace tapehead::nn {
namespace {

constexpr double embedding_deviation = 0.02;

EmbeddingOptions embedding_options(const GptOptions& options, std::int64_t rows) {
  return {.num_embeddings = rows,
          .embedding_dim = options.dim,
          .deviation = embedding_deviation,
          .dtype = options.dtype};
}

TransformerBlockOptions block_options(const GptOptions& options) {
  return {.dim = options.dim,
          .heads = options.heads,
          .activation = options.activation,
          .dropout = options.dropout,
          .dtype = options.dtype};
}

const GptOptions& checked(const GptOptions& options) {
  check_positive("Gpt", "vocab_size", options.vocab_size);
  check_positive("Gpt", "context", options.context);
  check_positive("Gpt", "layers", options.layers);
  check_positive("Gpt", "heads", options.heads);
  check_positive("Gpt", "dim", options.dim);
  return options;
}

}  // namespace

Gpt::Gpt(GptOptions options, Generator& generator)
    : token_embedding(embedding_options(options, checked(options).vocab_size), generator),
      position_embedding(embedding_options(options, options.context), generator),
      dropout(options.dropout),
      norm({.normalized_shape = {options.dim}, .dtype = options.dtype}),
      options_(options) {
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.emplace_back(block_options(options), generator);
  if (!options.tied_output)
    head.emplace(LinearOptions{.in_features = options.dim,
                               .out_features = options.vocab_size,
                               .bias = false,
                               .dtype = options.dtype},
                 generator);
}

Tensor Gpt::operator()(const Tensor& tokens) const {
  const ModuleScope scope = enter();
  return logits(features(tokens));
}

// Positions are the first rows of their table: a view, where a look-up would copy them.
Tensor Gpt::embed(const Tensor& tokens) const {
  const std::int64_t time = tokens.size(-1);
  Tensor x = token_embedding(tokens);
  const Tensor positions = narrow(position_embedding.weight, 0, 0, time);
  x = std::move(x) + positions;
  return dropout(std::move(x));
}

Tensor Gpt::features(const Tensor& tokens) const {
  if (tokens.rank() != 1 && tokens.rank() != 2)
    throw ShapeError("Gpt", "tokens " + describe(tokens) + " must be (batch, time) or (time)");
  const std::int64_t time = tokens.size(-1);
  if (time > options_.context)
    throw ShapeError("Gpt", "tokens " + describe(tokens) + ": the model's context is " +
                                std::to_string(options_.context));
  Tensor x = embed(tokens);
  const std::int64_t batch = tokens.rank() == 2 ? tokens.size(0) : 1;
  const Mask mask = Mask::causal().prepared({batch, options_.heads, time, time});
  for (const TransformerBlock& layer : layers) x = layer(x, mask);
  return norm(x);
}

Tensor Gpt::logits(const Tensor& features) const {
  return head ? (*head)(features) : linear(features, token_embedding.weight);
}

std::vector<std::int64_t> Gpt::generate(std::vector<std::int64_t> prompt, std::int64_t count,
                                        const SampleOptions& options, Generator& generator) const {
  check(options);
  if (prompt.empty()) throw ValueError("Gpt", "prompt must have at least one token");
  if (count < 0)
    throw ValueError("Gpt", "count " + std::to_string(count) + " must not be negative");
  const Tape::Pause pause;
  const ModuleScope scope = enter();
  std::vector<std::int64_t> tokens = std::move(prompt);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seen = std::min(static_cast<std::int64_t>(tokens.size()), options_.context);
    const std::vector<std::int64_t> window(tokens.end() - seen, tokens.end());
    const Tensor last = select(features(from_vector(window, {seen})), 0, -1);
    tokens.push_back(sample(logits(last).to_vector(), options, generator));
  }
  return tokens;
}

void Gpt::visit(Visitor& visitor) {
  visitor("token_embedding", token_embedding);
  visitor("position_embedding", position_embedding);
  visitor("dropout", dropout);
  visitor("layers", layers);
  visitor("norm", norm);
  visitor("head", head);
}

std::string Gpt::summary() const {
  return "Gpt(vocabulary " + std::to_string(options_.vocab_size) + ", context " +
         std::to_string(options_.context) + ", dim " + std::to_string(options_.dim) +
         (options_.tied_output ? ", tied output)" : ")");
}

}  // namespace tapehead::nn
