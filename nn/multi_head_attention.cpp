#include <tapehead/nn/attention_recorder.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <array>
#include <cmath>

namespace tapehead::nn {

namespace {

// The parts of the packed projection, in the order of their rows.
enum Part { query_part, key_part, value_part };

std::int64_t key_value_heads(const MultiHeadAttentionOptions& options) {
  return options.num_kv_heads.value_or(options.num_heads);
}

std::int64_t head_features(const MultiHeadAttentionOptions& options) {
  return options.embed_dim / options.num_heads;
}

// Rows of the projections of keys and of values.
std::int64_t key_value_dim(const MultiHeadAttentionOptions& options) {
  return head_features(options) * key_value_heads(options);
}

bool has_packed_weight(const MultiHeadAttentionOptions& options) {
  return options.kdim.value_or(options.embed_dim) == options.embed_dim &&
         options.vdim.value_or(options.embed_dim) == options.embed_dim;
}

void check_divides(const char* dividend_name, std::int64_t dividend, const char* divisor_name,
                   std::int64_t divisor) {
  if (dividend % divisor != 0)
    throw ValueError("MultiHeadAttention", std::string(dividend_name) + " " +
                                               std::to_string(dividend) + " must be divisible by " +
                                               divisor_name + " " + std::to_string(divisor));
}

const MultiHeadAttentionOptions& checked(const MultiHeadAttentionOptions& options) {
  const char* const name = "MultiHeadAttention";
  check_positive(name, "embed_dim", options.embed_dim);
  check_positive(name, "num_heads", options.num_heads);
  check_positive(name, "kdim", options.kdim.value_or(options.embed_dim));
  check_positive(name, "vdim", options.vdim.value_or(options.embed_dim));
  check_probability(name, "dropout", options.dropout);
  check_positive(name, "num_kv_heads", key_value_heads(options));
  check_divides("embed_dim", options.embed_dim, "num_heads", options.num_heads);
  check_divides("num_heads", options.num_heads, "num_kv_heads", key_value_heads(options));
  if (!std::isfinite(options.scale.value_or(1)))
    throw ValueError(name, "scale " + format_number(*options.scale) + " must be finite");
  if (options.rotary && head_features(options) % 2 != 0)
    throw ValueError(name, "a head has " + std::to_string(head_features(options)) +
                               " features; with rotary positions they must be even");
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
  const std::int64_t dim = options.embed_dim, kv_dim = key_value_dim(options);
  const std::int64_t rows = dim + 2 * kv_dim;
  if (has_packed_weight(options)) {
    in_proj_weight = initial_weight(options, rows, dim, generator);
  } else {
    q_proj_weight = initial_weight(options, dim, dim, generator);
    k_proj_weight = initial_weight(options, kv_dim, options.kdim.value_or(dim), generator);
    v_proj_weight = initial_weight(options, kv_dim, options.vdim.value_or(dim), generator);
  }
  if (!options.bias) return;
  if (options.init == ProjectionInit::xavier_uniform) {
    in_proj_bias = parameter(zeros({rows}, options.dtype));
    out_proj.bias = parameter(zeros({dim}, options.dtype));
  } else {
    in_proj_bias = parameter(linear_uniform({rows}, dim, options.dtype, generator));
  }
}

// Query, key and value are projected each by its rows of the packed weight, which are views of it:
// nothing is copied, and cross-attention is the same code.
Tensor MultiHeadAttention::project(const Tensor& x, int part) const {
  const std::int64_t dim = options_.embed_dim, kv_dim = key_value_dim(options_);
  const std::array starts{std::int64_t{0}, dim, dim + kv_dim};
  const std::int64_t start = starts.at(static_cast<std::size_t>(part));
  const std::int64_t rows = part == query_part ? dim : kv_dim;
  Tensor weight, bias;
  if (in_proj_weight.defined()) {
    weight = narrow(in_proj_weight, 0, start, rows);
  } else {
    weight = part == query_part ? q_proj_weight : part == key_part ? k_proj_weight : v_proj_weight;
  }
  if (in_proj_bias.defined()) bias = narrow(in_proj_bias, 0, start, rows);
  return split_heads(linear(x, weight, bias), rows / head_features(options_));
}

// The first token stands at position `offset`.
MultiHeadAttention::Heads MultiHeadAttention::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value,
                                                      std::int64_t offset) const {
  Heads heads;
  heads.q = project(query, query_part);
  heads.k = project(key, key_part);
  heads.v = project(value, value_part);
  if (!options_.rotary) return heads;
  const RotaryTable table = rotary_table(query.size(-2), head_features(options_), offset,
                                         *options_.rotary, options_.dtype);
  heads.q = rotate_positions(heads.q, table);
  heads.k = rotate_positions(heads.k, table);
  return heads;
}

void MultiHeadAttention::check(const Tensor& query, const Tensor& key, const Tensor& value) const {
  check_defined("MultiHeadAttention", "query", query);
  check_defined("MultiHeadAttention", "key", key);
  check_defined("MultiHeadAttention", "value", value);
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
  if (options_.rotary && key.size(-2) != query.size(-2))
    reject("with rotary positions query and key must have equal time");
}

// Weights that are asked for are composed; they are read before dropout. For a recorder they are
// computed beside, so that it changes nothing of what is computed and saved.
MultiHeadAttention::WithWeights MultiHeadAttention::attend(const Heads& heads,
                                                           AttentionOptions options,
                                                           std::optional<HeadWeights> which) const {
  options.scale = options_.scale;
  options.dropout = training() ? options_.dropout : 0;
  options.path = options_.path;
  WithWeights result;
  Tensor attended;
  if (AttentionRecorder::active()) {
    const Tape::Pause pause;
    const Tensor weights = attention_weights(heads.q, heads.k, options);
    AttentionRecorder::record(weights, options.mask.hidden(weights.shape()));
  }
  if (which) {
    Tensor weights = attention_weights(heads.q, heads.k, options);
    result.weights = *which == HeadWeights::per_head ? weights : mean(weights, {1});
    attended = weighted_values(std::move(weights), heads.v, options.dropout);
  } else {
    attended = attention(heads.q, heads.k, heads.v, options);
  }
  attended = merge_heads(attended);
  result.output = out_proj(attended);
  return result;
}

MultiHeadAttention::WithWeights MultiHeadAttention::run(const Tensor& query, const Tensor& key,
                                                        const Tensor& value,
                                                        const AttentionOptions& options,
                                                        std::optional<HeadWeights> which) const {
  check(query, key, value);
  if (query.rank() == 3) return attend(project(query, key, value, 0), options, which);
  const Tensor one_query = unsqueeze(query, 0);
  const Tensor one_key = unsqueeze(key, 0);
  const Tensor one_value = unsqueeze(value, 0);
  WithWeights result = attend(project(one_query, one_key, one_value, 0), options, which);
  result.output = squeeze(result.output, 0);
  if (which) result.weights = squeeze(result.weights, 0);
  return result;
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Mask& mask, const Tensor& bias) const {
  const ModuleScope scope = enter();
  if (options_.checkpoint) return run_checkpointed(query, key, value, {.mask = mask, .bias = bias});
  return run(query, key, value, {.mask = mask, .bias = bias}, std::nullopt).output;
}

// Of self-attention the input is given once: three times, each would have a gradient of its own.
Tensor MultiHeadAttention::run_checkpointed(const Tensor& query, const Tensor& key,
                                            const Tensor& value, AttentionOptions options) const {
  const bool one_input = key.is_same(query) && value.is_same(query);
  const bool biased = options.bias.defined();
  std::vector<Tensor> inputs{query};
  if (!one_input) inputs.insert(inputs.end(), {key, value});
  if (biased) inputs.push_back(std::move(options.bias));
  const auto again = [this, one_input, biased, mask = options.mask](const std::vector<Tensor>& in) {
    const Tensor& k = in[one_input ? 0 : 1];
    const Tensor& v = in[one_input ? 0 : 2];
    return run(in[0], k, v, {.mask = mask, .bias = biased ? in.back() : Tensor()}, std::nullopt)
        .output;
  };
  return checkpoint(again, inputs);
}

MultiHeadAttention::WithWeights MultiHeadAttention::with_weights(
    const Tensor& query, const Tensor& key, const Tensor& value, const Mask& mask,
    HeadWeights which, const Tensor& bias) const {
  const ModuleScope scope = enter();
  return run(query, key, value, {.mask = mask, .bias = bias}, which);
}

Tensor MultiHeadAttention::decode(const Tensor& x, KeyValueCache& cache, const Mask& mask,
                                  const Tensor& bias) const {
  const ModuleScope scope = enter();
  check(x, x, x);
  const bool batched = x.rank() == 3;
  const Tensor tokens = batched ? x : unsqueeze(x, 0);
  const std::int64_t offset = cache.size();
  Heads heads = project(tokens, tokens, tokens, offset);
  KeyValueCache::Seen seen = cache.append(heads.k, heads.v);
  heads.k = std::move(seen.keys);
  heads.v = std::move(seen.values);
  const Mask causal = Mask::causal(offset) & mask;
  const Tensor output = attend(heads, {.mask = causal, .bias = bias}, std::nullopt).output;
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
         std::to_string(options_.num_heads) + " heads" +
         (options_.num_kv_heads ? ", " + std::to_string(*options_.num_kv_heads) + " of keys)"
                                : ")");
}

}  // namespace tapehead::nn
