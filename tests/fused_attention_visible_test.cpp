// What is not finite and seen goes where the composition takes it, whatever other pairs are hidden:
// a weight of 0 keeps nothing out (0 * NaN is NaN), only hiding does.
#include "support/values.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tapehead::tests {
namespace {

constexpr std::int64_t queries = 130, keys = 150;  // three tiles each
// The weights of these keys underflow to 0.
constexpr std::int64_t unlikely_keys[] = {5, 70, 149};

struct Operands {
  Tensor q, k, v, bias, dy;  // (queries, 4), (keys, 4), (keys, 3), (queries, keys), (queries, 3)
};

Operands random_operands(DType dtype, Generator& random) {
  Operands x{randn({queries, 4}, dtype, random), randn({keys, 4}, dtype, random),
             randn({keys, 3}, dtype, random), randn({queries, keys}, dtype, random),
             randn({queries, 3}, dtype, random)};
  fill_(narrow(x.q, 1, 0, 1), 1);
  for (const std::int64_t key : unlikely_keys)
    fill_(narrow(narrow(x.k, 0, key, 1), 1, 0, 1), -2000);
  return x;
}

// Draws a whole number below `count`.
std::int64_t draw(std::int64_t count, Generator& random) {
  const double u = rand({1}, DType::f64, random).to_vector()[0];
  return static_cast<std::int64_t>(u * static_cast<double>(count));
}

void poison(const Tensor& x, std::int64_t row, double value, Generator& random) {
  fill_(narrow(narrow(x, 0, row, 1), 1, draw(x.size(1), random), 1), value);
}

using List = std::vector<Tensor>;

List with_gradients(Tape& tape, const Tensor& y, const Operands& x) {
  const Gradients g = tape.gradient(y, {x.q, x.k, x.v, x.bias}, x.dy);
  return {y.detach(), g[x.q], g[x.k], g[x.v], g[x.bias]};
}

// Each query has its own copy of the keys and values, with 0 in those that it does not see.
Tensor composed(const Operands& x, const Tensor& hidden, double dropped, Generator& random) {
  const auto seen = [&](const Tensor& rows) {
    const Tensor copies = expand(unsqueeze(rows, 0), {queries, keys, rows.size(1)});
    return masked_fill(copies, unsqueeze(hidden, 2), 0);
  };
  const Tensor products = matmul(unsqueeze(x.q, 1), transpose(seen(x.k), -2, -1));
  const Tensor scores = add(products, unsqueeze(x.bias, 1));
  const Tensor weights = softmax(masked_fill(scores, unsqueeze(hidden, 1), -infinity), -1,
                                 {.empty_row = EmptyRow::zero});
  return squeeze(matmul(dropout(weights, dropped, random), seen(x.v)), 1);
}

struct Mask {
  std::string name;
  FusedAttentionOptions options;
  Tensor hidden;  // (queries, keys): what the options hide
};

std::vector<Mask> masks(Generator& random) {
  const Tensor nothing = zeros({queries, keys}, DType::boolean);
  const Tensor later =
      gt(unsqueeze(arange(keys, DType::f64), 0), unsqueeze(arange(queries, DType::f64), 1));
  const Tensor half = gt(rand({queries, keys}, DType::f64, random), 0.5);
  const Tensor one_pair = zeros({queries, keys}, DType::boolean);
  fill_(narrow(narrow(one_pair, 0, 100, 1), 1, 100, 1), 1);
  return {{"nothing hidden", {}, nothing},
          {"causal", {.causal_offset = 0}, later},
          {"half of the pairs", {.hidden = half}, half},
          {"one pair", {.hidden = one_pair}, one_pair},
          {"-infinity in bias", {}, half}};
}

List fused(Operands x, FusedAttentionOptions options) {
  options.bias = x.bias;
  Tape tape;
  return with_gradients(tape, fused_attention(x.q, x.k, x.v, options), x);
}

void check_equals_composition(Operands x, const Mask& mask) {
  if (!mask.options.hidden.defined() && !mask.options.causal_offset)
    x.bias = masked_fill(x.bias, mask.hidden, -infinity);
  for (Tensor* leaf : {&x.q, &x.k, &x.v, &x.bias}) *leaf = parameter(clone(*leaf));
  Generator unused;
  List expected;
  {
    Tape tape;
    expected = with_gradients(tape, composed(x, mask.hidden, 0, unused), x);
  }
  const List results = fused(x, mask.options);
  // Sums of up to 150 products in another order.
  const double tolerance = x.q.dtype() == DType::f64 ? 1e-11 : 1e-4;
  for (std::size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    CHECK(allclose(results[i], expected[i], tolerance, tolerance, true));
  }
}

void check_random_poison(DType dtype, std::uint64_t seed) {
  Generator random(seed);
  for (const Mask& mask : masks(random))
    for (const double value : {not_a_number, infinity, -infinity}) {
      CAPTURE(mask.name);
      CAPTURE(value);
      for (Tensor Operands::*which : {&Operands::q, &Operands::k, &Operands::v}) {
        const Operands x = random_operands(dtype, random);
        const Tensor& rows = x.*which;
        poison(rows, draw(rows.size(0), random), value, random);
        if (which != &Operands::q) poison(rows, unlikely_keys[draw(3, random)], value, random);
        check_equals_composition(x, mask);
      }
    }
}

Tensor column(const std::vector<double>& values, DType dtype) {
  return parameter(to(from_vector(values, {static_cast<std::int64_t>(values.size()), 1}), dtype));
}

}  // namespace

TEST_CASE("NaN and infinity at random places: fused attention equals the composition") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      CAPTURE(seed);
      check_random_poison(dtype, seed);
    }
}

TEST_CASE("NaN in bias or in the gradient of the output: fused attention equals the composition") {
  Generator random(4);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Mask& mask : masks(random))
      for (Tensor Operands::*which : {&Operands::bias, &Operands::dy}) {
        CAPTURE(mask.name);
        const Operands x = random_operands(dtype, random);
        poison(x.*which, draw(queries, random), not_a_number, random);
        check_equals_composition(x, mask);
      }
}

TEST_CASE("a visible NaN with a weight of 0 shows, though another query hides its key") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor q = column({1, 1}, dtype), k = column({0, -2000}, dtype),
                 v = column({1, not_a_number}, dtype);
    const Tensor hidden = from_vector(std::vector<bool>{false, false, false, true}, {2, 2});
    Tape tape;
    const Tensor y = fused_attention(q, k, v, {.hidden = hidden});
    const Gradients g = tape.gradient(y, {q, k, v}, ones({2, 1}, dtype));
    const auto equals = [](const Tensor& x, const std::vector<double>& values) {
      return allclose(x, from_vector(values, {2, 1}), 0, 0, true);
    };
    CHECK(equals(y.detach(), {not_a_number, 1}));
    CHECK(equals(g[q], {not_a_number, 0}));
    CHECK(equals(g[k], {not_a_number, not_a_number}));
    CHECK(equals(g[v], {2, 0}));
  }
}

TEST_CASE("a visible NaN with a weight of 0 shows in recorded gradients too") {
  const Tensor q = column({1, 1}, DType::f64), k = column({0, -2000}, DType::f64),
               v = column({1, not_a_number}, DType::f64);
  const Tensor hidden = from_vector(std::vector<bool>{false, false, false, true}, {2, 2});
  Tape tape;
  const Tensor y = fused_attention(q, k, v, {.hidden = hidden});
  const Gradients g = tape.gradient(y, {q, k, v}, ones({2, 1}, DType::f64), {.create_graph = true});
  CHECK(isnan(select(g[q], 0, 0)).item() == 1);
  CHECK(equal(isnan(g[k]), ones({2, 1}, DType::boolean)));
  CHECK(equal(g[v].detach(), from_vector(std::vector<double>{2, 0}, {2, 1})));
}

TEST_CASE("a dropped weight keeps no visible NaN out, whatever else is hidden") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Generator random(5);
    for (const Mask& mask : {masks(random)[0], masks(random)[2], masks(random)[3]}) {
      CAPTURE(mask.name);
      Operands x = random_operands(dtype, random);
      poison(x.v, 80, not_a_number, random);
      x.bias = zeros({queries, keys}, dtype);
      Generator first(6), second(6);
      FusedAttentionOptions options = mask.options;
      options.dropout = 0.5;
      options.generator = &first;
      const Tensor y = fused_attention(x.q, x.k, x.v, options);
      const double tolerance = dtype == DType::f64 ? 1e-11 : 1e-4;
      CHECK(allclose(y, composed(x, mask.hidden, 0.5, second), tolerance, tolerance, true));
    }
  }
}

TEST_CASE("values near the largest number do not overflow, though their sum would") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t count : {2, 64, 300}) {
      CAPTURE(count);
      const double large = dtype == DType::f32 ? 3e38 : 1.7e308;
      Tensor v = full({count + 1, 1}, large, dtype);
      fill_(narrow(v, 0, count, 1), infinity);
      const Tensor k = zeros({count + 1, 1}, dtype);
      const Tensor hidden = gt(arange(count + 1, DType::f64), static_cast<double>(count) - 0.5);
      const Tensor y = fused_attention(zeros({1, 1}, dtype), k, v, {.hidden = hidden});
      CHECK(allclose(y, full({1, 1}, large, dtype), 1e-6, 0));
      const Tensor sees_all = fused_attention(zeros({1, 1}, dtype), k, v);
      CHECK(equal(sees_all, full({1, 1}, infinity, dtype)));
    }
}

TEST_CASE("a hidden pair whose products overflow has no gradient") {
  const Tensor q = column({1, 1}, DType::f32), k = column({0, 0}, DType::f32),
               v = column({1, 3e38}, DType::f32);
  const Tensor hidden = from_vector(std::vector<bool>{false, true}, {2});
  Tape tape;
  const Tensor y = fused_attention(q, k, v, {.hidden = hidden});
  const Gradients g = tape.gradient(y, {q, k, v}, full({2, 1}, 2, DType::f32));
  CHECK(equal(g[q], zeros({2, 1}, DType::f32)));
  CHECK(equal(g[k], zeros({2, 1}, DType::f32)));
}

}  // namespace tapehead::tests
