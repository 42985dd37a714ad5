#include <tapehead/nn/attention.h>
#include <tapehead/nn/check.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <limits>

namespace tapehead::nn {

namespace {

// ---- grouped heads -----------------------------------------------------------------------------

// Whether b has fewer heads than a, each for a group of a's. One head, or none, just broadcasts.
bool is_grouped(const Tensor& a, const Tensor& b) {
  if (a.rank() < 3 || b.rank() < 3) return false;
  const std::int64_t heads = a.size(-3), shared = b.size(-3);
  return heads > shared && shared > 1 && heads % shared == 0;
}

// matmul, where head h of a meets head h / (heads of a / heads of b) of b: a's heads are viewed as
// (heads of b, group), and b broadcasts over the group.
Tensor matmul_heads(const Tensor& a, const Tensor& b, MatmulOptions options = {}) {
  if (!is_grouped(a, b)) return matmul(a, b, options);
  Shape groups = a.shape();
  const int head_dim = a.rank() - 3;
  groups[head_dim] = b.size(-3);
  groups.insert(head_dim + 1, a.size(-3) / b.size(-3));
  const Tensor grouped_a = reshape(a, groups);
  const Tensor grouped_b = unsqueeze(b, -3);
  const Tensor product = matmul(grouped_a, grouped_b, options);
  return flatten(product, -4, -3);
}

// ---- checks ------------------------------------------------------------------------------------

// Dims in front of the matrices broadcast, or else dim -3 holds heads in groups.
void check_heads(const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  if (a.rank() < 3 || b.rank() < 3 || is_grouped(a, b)) return;
  const std::int64_t heads = a.size(-3), shared = b.size(-3);
  if (heads == shared || heads == 1 || shared == 1) return;
  throw ShapeError("attention", std::string(a_name) + " " + describe(a) + " and " + b_name + " " +
                                    describe(b) + ": the heads (dim -3) of " + a_name +
                                    " must be a multiple of those of " + b_name);
}

void check_queries_and_keys(const Tensor& q, const Tensor& k) {
  check_defined("attention", "q", q);
  check_defined("attention", "k", k);
  if (q.rank() < 2 || k.rank() < 2 || q.shape().back() != k.shape().back())
    throw ShapeError("attention", "q " + describe(q) + " and k " + describe(k) +
                                      ": both must be (..., time, features), with equal features");
  check_same_dtype("attention", q, k, "q", "k");
  check_heads("q", q, "k", k);
}

void check_keys_and_values(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_defined("attention", "v", v);
  if (v.rank() < 2 || v.shape()[v.rank() - 2] != k.shape()[k.rank() - 2])
    throw ShapeError("attention", "k " + describe(k) + " and v " + describe(v) +
                                      ": both must be (..., time, features), with equal time");
  check_same_dtype("attention", q, v, "q", "v");
  check_heads("q", q, "v", v);
}

void check_bias(const Tensor& bias, const Shape& scores) {
  if (!broadcasts_to(bias.shape(), scores))
    throw ShapeError("attention", "bias " + describe(bias) + " does not broadcast to the scores " +
                                      to_string(scores));
}

// ---- the fused path ----------------------------------------------------------------------------

double scale_of(const Tensor& q, const AttentionOptions& options) {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape().back())));
}

// Whether fused_attention takes operands that the composition takes: nothing broadcasts but the
// heads of k and v.
bool fused_takes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int rank = q.rank();
  if (rank > 4 || k.rank() != rank || v.rank() != rank) return false;
  if (rank == 4 && (k.size(0) != q.size(0) || v.size(0) != q.size(0))) return false;
  return rank < 3 || (k.size(-3) == v.size(-3) && q.size(-3) >= k.size(-3));
}

Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Shape scores = q.shape();
  scores[scores.rank() - 1] = k.size(-2);
  const Mask::Parts mask = options.mask.parts(scores);
  return fused_attention(q, k, v,
                         {.scale = scale_of(q, options),
                          .causal_offset = mask.causal_offset,
                          .hidden = mask.hidden,
                          .bias = options.bias,
                          .dropout = options.dropout});
}

}  // namespace

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  check_queries_and_keys(q, k);
  const Tensor k_transposed = transpose(k, -2, -1);
  Tensor scores = matmul_heads(q, k_transposed, {.scale = scale_of(q, options)});
  if (options.bias.defined()) {
    check_bias(options.bias, scores.shape());
    scores = add(std::move(scores), options.bias);
  }
  const Tensor hidden = options.mask.hidden(scores.shape());
  if (hidden.defined())
    scores = masked_fill(std::move(scores), hidden, -std::numeric_limits<double>::infinity());
  return softmax(std::move(scores), -1, {.empty_row = EmptyRow::zero});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  check_queries_and_keys(q, k);
  check_keys_and_values(q, k, v);
  check_probability("attention", "dropout", options.dropout);
  if (options.path == AttentionPath::fused ||
      (options.path == AttentionPath::automatic && fused_takes(q, k, v)))
    return fused(q, k, v, options);
  return weighted_values(attention_weights(q, k, options), v, options.dropout);
}

Tensor weighted_values(Tensor weights, const Tensor& v, double dropout_probability) {
  if (dropout_probability > 0) weights = dropout(std::move(weights), dropout_probability);
  return matmul_heads(weights, v);
}

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  check_defined("split_heads", "x", x);
  if (x.rank() < 2 || heads < 1 || x.shape().back() % heads != 0)
    throw ShapeError("split_heads", "x " + describe(x) + " must be (..., time, features), with " +
                                        "features divisible by " + std::to_string(heads) +
                                        " heads");
  Shape parts = x.shape();
  parts[parts.rank() - 1] = heads;
  parts.push_back(x.shape().back() / heads);
  return transpose(reshape(x, parts), -3, -2);
}

Tensor merge_heads(const Tensor& x) {
  check_defined("merge_heads", "x", x);
  if (x.rank() < 3)
    throw ShapeError("merge_heads", "x " + describe(x) + " must be (..., heads, time, features)");
  const Tensor by_token = transpose(x, -3, -2);
  Shape merged = by_token.shape();
  const std::int64_t features = merged.back();
  merged.erase(merged.rank() - 1);
  merged[merged.rank() - 1] *= features;
  return reshape(by_token, merged);
}

}  // namespace tapehead::nn
