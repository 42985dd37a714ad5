#include <tapehead/nn/attention.h>
#include <tapehead/nn/check.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <limits>

namespace tapehead::nn {

namespace {

void check_queries_and_keys(const Tensor& q, const Tensor& k) {
  if (q.rank() < 2 || k.rank() < 2 || q.shape().back() != k.shape().back())
    throw ShapeError("attention", "q " + describe(q) + " and k " + describe(k) +
                                      ": both must be (..., time, features), with equal features");
}

void check_keys_and_values(const Tensor& k, const Tensor& v) {
  if (v.rank() < 2 || v.shape()[v.rank() - 2] != k.shape()[k.rank() - 2])
    throw ShapeError("attention", "k " + describe(k) + " and v " + describe(v) +
                                      ": both must be (..., time, features), with equal time");
}

}  // namespace

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  check_queries_and_keys(q, k);
  const double features = static_cast<double>(q.shape().back());
  const double scale = options.scale.value_or(1 / std::sqrt(features));
  const Tensor k_transposed = transpose(k, -2, -1);
  Tensor scores = matmul(q, k_transposed, {.scale = scale});
  const Tensor hidden = options.mask.hidden(scores.shape());
  if (hidden.defined())
    scores = masked_fill(std::move(scores), hidden, -std::numeric_limits<double>::infinity());
  return softmax(std::move(scores), -1, {.empty_row = EmptyRow::zero});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  check_queries_and_keys(q, k);
  check_keys_and_values(k, v);
  check_probability("attention", "dropout", options.dropout);
  return weighted_values(attention_weights(q, k, options), v, options.dropout);
}

Tensor weighted_values(Tensor weights, const Tensor& v, double dropout_probability) {
  if (dropout_probability > 0) weights = dropout(std::move(weights), dropout_probability);
  return matmul(weights, v);
}

Tensor split_heads(const Tensor& x, std::int64_t heads) {
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
