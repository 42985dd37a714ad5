#include <tapehead/nn/check.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

namespace tapehead::nn {

namespace {

enum Part : std::int64_t { query_part, key_part, value_part };

bool has_packed_weight(const MultiHeadAttentionOptions& options) {
  return options.kdim.value_or(options.embed_dim) == options.embed_dim &&
         options.vdim.value_or(options.embed_dim) == options.embed_dim;
}

const MultiHeadAttentionOptions& checked(const MultiHeadAttentionOptions& options) {
  const char* const name = "MultiHeadAttention";
  check_positive(name, "embed_dim", options.embed_dim);
  check_positive(name, "num_heads", options.num_heads);
  check_positive(name, "kdim", options.kdim.value_or(options.embed_dim));
  check_positive(name, "vdim", options.vdim.value_or(options.embed_dim));
  check_probability(name, "dropout", options.dropout);
  if (options.embed_dim % options.num_heads != 0)
    throw ValueError(name, "embed_dim " + std::to_string(options.embed_dim) +
                               " must be divisible by num_heads " +
                               std::to_string(options.num_heads));
  return options;
}

Tensor initial_weight(const MultiHeadAttentionOptions& options, std::int64_t rows,
                      std::int64_t columns, Generator& generator) {
  if (options.init == ProjectionInit::xavier_uniform)
    return parameter(xavier_uniform({rows, columns}, options.dtype, generator));
  return parameter(linear_uniform({rows, columns}, columns, options.dtype, generator));
}

LinearOptions output_options(const MultiHeadAttentionOptions& options) {
  return {.in_features = options.embed_dim,
          .out_features = options.embed_dim,
          .bias = options.bias,
          .dtype = options.dtype};
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(MultiHeadAttentionOptions options, Generator& generator)
    : out_proj(output_options(checked(options)), generator), options_(options) {
  const std::int64_t dim = options.embed_dim;
  if (has_packed_weight(options)) {
    in_proj_weight = initial_weight(options, 3 * dim, dim, generator);
  } else {
    q_proj_weight = initial_weight(options, dim, dim, generator);
    k_proj_weight = initial_weight(options, dim, options.kdim.value_or(dim), generator);
    v_proj_weight = initial_weight(options, dim, options.vdim.value_or(dim), generator);
  }
  if (!options.bias) return;
  if (options.init == ProjectionInit::xavier_uniform) {
    in_proj_bias = parameter(zeros({3 * dim}, options.dtype));
    out_proj.bias = parameter(zeros({dim}, options.dtype));
  } else {
    in_proj_bias = parameter(linear_uniform({3 * dim}, dim, options.dtype, generator));
  }
}

// Query, key and value are projected each by its rows of the packed weight, which are views of it:
// nothing is copied, and cross-attention is the same code.
MultiHeadAttention::Projection MultiHeadAttention::projection(std::int64_t part) const {
  const std::int64_t dim = options_.embed_dim;
  Projection projection;
  if (in_proj_weight.defined()) {
    projection.weight = narrow(in_proj_weight, 0, part * dim, dim);
  } else {
    const Tensor* const weights[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
    projection.weight = *weights[part];
  }
  if (in_proj_bias.defined()) projection.bias = narrow(in_proj_bias, 0, part * dim, dim);
  return projection;
}

Tensor MultiHeadAttention::project(const Tensor& x, std::int64_t part) const {
  const Projection own = projection(part);
  return split_heads(linear(x, own.weight, own.bias), options_.num_heads);
}

void MultiHeadAttention::check(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const std::int64_t dim = options_.embed_dim;
  const auto reject = [&](const std::string& rule) {
    throw ShapeError("MultiHeadAttention", "query " + describe(query) + ", key " + describe(key) +
                                               ", value " + describe(value) + ": " + rule);
  };
  const int rank = query.rank();
  if ((rank != 2 && rank != 3) || key.rank() != rank || value.rank() != rank)
    reject("all must be (batch, time, features), or all (time, features)");
  if (query.size(-1) != dim || key.size(-1) != options_.kdim.value_or(dim) ||
      value.size(-1) != options_.vdim.value_or(dim))
    reject("the features must be " + std::to_string(dim) + ", " +
           std::to_string(options_.kdim.value_or(dim)) + " and " +
           std::to_string(options_.vdim.value_or(dim)));
  if (key.size(-2) != value.size(-2)) reject("key and value must have equal time");
  if (rank == 3 && (key.size(0) != query.size(0) || value.size(0) != query.size(0)))
    reject("the batch sizes must be equal");
}

MultiHeadAttention::WithWeights MultiHeadAttention::run(const Tensor& query, const Tensor& key,
                                                        const Tensor& value,
                                                        AttentionOptions options,
                                                        std::optional<HeadWeights> which) const {
  const ModuleScope scope = enter();
  check(query, key, value);
  const bool batched = query.rank() == 3;
  const auto with_batch = [&](const Tensor& x) { return batched ? x : unsqueeze(x, 0); };
  const auto as_given = [&](Tensor x) { return batched ? x : squeeze(x, 0); };

  const Tensor q = project(with_batch(query), query_part);
  const Tensor k = project(with_batch(key), key_part);
  const Tensor v = project(with_batch(value), value_part);
  options.dropout = training() ? options_.dropout : 0;
  options.path = options_.path;
  WithWeights result;
  Tensor heads;
  if (which) {
    Tensor weights = attention_weights(q, k, options);
    const bool per_head = *which == HeadWeights::per_head;
    result.weights = as_given(per_head ? weights : mean(weights, {1}));
    heads = weighted_values(std::move(weights), v, options.dropout);
  } else {
    heads = attention(q, k, v, options);
  }
  heads = merge_heads(heads);
  result.output = as_given(out_proj(heads));
  return result;
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Mask& mask, const Tensor& bias) const {
  return run(query, key, value, {.mask = mask, .bias = bias}, std::nullopt).output;
}

MultiHeadAttention::WithWeights MultiHeadAttention::with_weights(
    const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask,
    HeadWeights which, const Tensor& bias) const {
  return run(query, key, value, {.mask = mask, .bias = bias}, which);
}

Tensor MultiHeadAttention::decode(const Tensor& x, KeyValueCache& cache, const Mask& mask) const {
  const ModuleScope scope = enter();
  check(x, x, x);
  const bool batched = x.rank() == 3;
  const Tensor tokens = batched ? x : unsqueeze(x, 0);
  const Tensor q = project(tokens, query_part);
  const Tensor k = project(tokens, key_part);
  const Tensor v = project(tokens, value_part);
  const AttentionOptions options{.mask = Mask::causal(cache.size()) & mask,
                                 .dropout = training() ? options_.dropout : 0,
                                 .path = options_.path};
  const KeyValueCache::Seen seen = cache.append(k, v);
  const Tensor heads = attention(q, seen.keys, seen.values, options);
  const Tensor output = out_proj(merge_heads(heads));
  return batched ? output : squeeze(output, 0);
}

void MultiHeadAttention::visit(Visitor& visitor) {
  visitor("in_proj_weight", in_proj_weight);
  visitor("q_proj_weight", q_proj_weight);
  visitor("k_proj_weight", k_proj_weight);
  visitor("v_proj_weight", v_proj_weight);
  visitor("in_proj_bias", in_proj_bias);
  visitor("out_proj", out_proj);
}

std::string MultiHeadAttention::summary() const {
  return "MultiHeadAttention(" + std::to_string(options_.embed_dim) + ", " +
         std::to_string(options_.num_heads) + " heads)";
}

}  // namespace tapehead::nn
