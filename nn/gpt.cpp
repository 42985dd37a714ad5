#include <tapehead/nn/check.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/windows.h>

#include <cmath>

namespace tapehead::nn {
namespace {

constexpr double embedding_deviation = 0.02;

EmbeddingOptions embedding_options(const GptOptions& options) {
  return {.num_embeddings = options.vocab_size,
          .embedding_dim = options.dim,
          .deviation = embedding_deviation,
          .dtype = options.dtype};
}

LearnedPositionsOptions position_options(const GptOptions& options) {
  return {.max_positions = options.context,
          .dim = options.dim,
          .deviation = embedding_deviation,
          .dtype = options.dtype};
}

TransformerLayerOptions layer_options(const GptOptions& options) {
  TransformerLayerOptions layer{.d_model = options.dim,
                                .nhead = options.heads,
                                .dim_feedforward = 4 * options.dim,
                                .dropout = options.dropout,
                                .activation = options.activation,
                                .norm_first = true,
                                .num_kv_heads = options.kv_heads,
                                .init = ProjectionInit::linear_uniform,
                                .path = options.path,
                                .checkpoint = options.checkpoint,
                                .dtype = options.dtype};
  if (options.positions == GptPositions::rotary) layer.rotary.emplace();
  return layer;
}

const GptOptions& checked(const GptOptions& options) {
  check_positive("Gpt", "vocab_size", options.vocab_size);
  check_positive("Gpt", "context", options.context);
  check_positive("Gpt", "layers", options.layers);
  check_positive("Gpt", "heads", options.heads);
  check_positive("Gpt", "dim", options.dim);
  if (options.positions == GptPositions::sinusoidal && options.dim % 2 != 0)
    throw ValueError(
        "Gpt", "dim " + std::to_string(options.dim) + " must be even with sinusoidal positions");
  return options;
}

}  // namespace

Gpt::Gpt(GptOptions options, Generator& generator)
    : token_embedding(embedding_options(checked(options)), generator),
      dropout(options.dropout),
      norm({.normalized_shape = {options.dim}, .dtype = options.dtype}),
      options_(options) {
  if (options.positions == GptPositions::learned)
    position_embedding.emplace(position_options(options), generator);
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.emplace_back(layer_options(options), generator);
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

Tensor Gpt::decode(const Tensor& tokens, GptCache& cache) const {
  const ModuleScope scope = enter();
  if (cache.empty()) cache.resize(layers.size());
  if (cache.size() != layers.size())
    throw ValueError("Gpt", "a cache of " + std::to_string(cache.size()) +
                                " layers for a model of " + std::to_string(layers.size()));
  const std::int64_t size = cache.front().size();
  try {
    return logits(features(tokens, &cache));
  } catch (...) {
    for (KeyValueCache& layer : cache) layer.truncate(size);
    throw;
  }
}

Tensor Gpt::embed(const Tensor& tokens, std::int64_t offset) const {
  const std::int64_t time = tokens.size(-1);
  Tensor x = token_embedding(tokens);
  if (position_embedding) {
    const Tensor positions = (*position_embedding)(time, offset);
    x = std::move(x) + positions;
  } else if (options_.positions == GptPositions::sinusoidal) {
    const Tensor positions = sinusoidal_positions(time, options_.dim, offset, options_.dtype);
    x = std::move(x) * std::sqrt(static_cast<double>(options_.dim));
    x = std::move(x) + positions;
  }
  return dropout(std::move(x));
}

// With a cache, the tokens are those that come next.
Tensor Gpt::features(const Tensor& tokens, GptCache* cache) const {
  if (tokens.rank() != 1 && tokens.rank() != 2)
    throw ShapeError("Gpt", "tokens " + describe(tokens) + " must be (batch, time) or (time)");
  const std::int64_t time = tokens.size(-1), offset = cache ? cache->front().size() : 0;
  if (offset + time > options_.context)
    throw ShapeError("Gpt", "tokens " + describe(tokens) +
                                (offset > 0 ? " after " + std::to_string(offset) : "") +
                                ": the model's context is " + std::to_string(options_.context));
  const std::int64_t batch = tokens.rank() == 2 ? tokens.size(0) : 1;
  const Tensor x =
      run_layers(embed(tokens, offset), {batch, options_.heads, time, offset + time}, cache);
  return norm(x);
}

// All layers share one mask and one bias for their scores. A checkpoint would keep the mask's
// tensor: there each layer makes its own.
Tensor Gpt::run_layers(Tensor x, const Shape& scores, GptCache* cache) const {
  const std::int64_t time = scores[2], keys = scores[3];
  Tensor bias;
  if (options_.positions == GptPositions::alibi)
    bias = alibi_bias(options_.heads, time, keys, keys - time, options_.dtype);
  Mask mask = cache ? Mask() : Mask::causal();
  if (options_.checkpoint == Checkpointed::none) mask = mask.prepared(scores);
  for (std::size_t i = 0; i < layers.size(); ++i)
    x = cache ? layers[i].decode(x, (*cache)[i], mask, bias) : layers[i](x, mask, bias);
  return x;
}

Tensor Gpt::logits(const Tensor& features) const {
  return head ? (*head)(features) : linear(features, token_embedding.weight);
}

std::vector<std::int64_t> Gpt::generate(std::vector<std::int64_t> prompt, std::int64_t count,
                                        const SampleOptions& options, Generator& generator) const {
  check(options);
  if (prompt.empty()) throw ValueError("Gpt", "prompt must have at least one token");
  check_not_negative("Gpt", "count", count);
  const Tape::Pause pause;
  const ModuleScope scope = enter();
  GptCache cache(layers.size());
  std::vector<std::int64_t> tokens = std::move(prompt);
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(sample(last_logits(tokens, cache).to_vector(), options, generator));
  return tokens;
}

// The logits of the token after `tokens`, of which the cache holds the first ones. Only of the last
// position: the others' would be thrown away.
Tensor Gpt::last_logits(std::span<const std::int64_t> tokens, GptCache& cache) const {
  const auto context = static_cast<std::size_t>(options_.context);
  const bool fits = tokens.size() <= context;
  const std::span<const std::int64_t> part =
      fits ? tokens.subspan(static_cast<std::size_t>(cache.front().size())) : tokens.last(context);
  const std::vector<std::int64_t> input(part.begin(), part.end());
  const Tensor indices = from_vector(input, {std::ssize(input)});
  const Tensor last = select(features(indices, fits ? &cache : nullptr), 0, -1);
  return logits(last);
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
