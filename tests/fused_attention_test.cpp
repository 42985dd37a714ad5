// Fused attention against the composition of matmul, masked_fill, softmax and matmul, over several
// tiles. The table of operation cases has its rows for what every operation keeps to.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace tapehead::tests {
namespace {

using List = std::vector<Tensor>;

struct Problem {
  Tensor q, k, v, hidden, bias;
  double dropout = 0;
  std::optional<std::int64_t> causal_offset = {};
};

Tensor causal_hidden(std::int64_t queries, std::int64_t keys, std::int64_t offset) {
  const Tensor i = unsqueeze(arange(queries, DType::f64), 1);
  const Tensor j = unsqueeze(arange(keys, DType::f64), 0);
  return gt(j, add(i, static_cast<double>(offset)));
}

// The formula, step by step, with the heads of a group sharing keys and values.
Tensor composed(const Problem& p, double scale, Generator& generator) {
  const std::int64_t group = p.q.size(1) / p.k.size(1);
  const auto shared = [&](const Tensor& x) {
    const Tensor wide =
        expand(unsqueeze(x, 2), {x.size(0), x.size(1), group, x.size(2), x.size(3)});
    return reshape(wide, {x.size(0), x.size(1) * group, x.size(2), x.size(3)});
  };
  const Tensor k = shared(p.k), v = shared(p.v);
  Tensor scores = mul(matmul(p.q, transpose(k, -2, -1)), scale);
  if (p.bias.defined()) scores = add(scores, p.bias);
  if (p.causal_offset)
    scores =
        masked_fill(scores, causal_hidden(p.q.size(2), k.size(2), *p.causal_offset), -infinity);
  if (p.hidden.defined()) scores = masked_fill(scores, p.hidden, -infinity);
  const Tensor weights = softmax(scores, -1, {.empty_row = EmptyRow::zero});
  return matmul(dropout(weights, p.dropout, generator), v);
}

std::vector<Tensor> leaves_of(Problem& p) {
  std::vector<Tensor> leaves{p.q, p.k, p.v};
  if (p.bias.defined()) leaves.push_back(p.bias);
  return leaves;
}

// Values and all gradients, for one random upstream gradient, agree.
void check_equal(Problem p, double tolerance) {
  Generator random(3), first(11), second(11);
  const std::vector<Tensor> leaves = leaves_of(p);
  const double scale = 0.37;
  Tensor y_composed, y_fused, seed;
  Gradients g_composed, g_fused;
  {
    Tape tape;
    const Tensor y = composed(p, scale, first);
    y_composed = y.detach();
    seed = randn(y.shape(), y.dtype(), random);
    g_composed = tape.gradient(y, leaves, seed);
  }
  {
    Tape tape;
    const Tensor y = fused_attention(p.q, p.k, p.v,
                                     {.scale = scale,
                                      .causal_offset = p.causal_offset,
                                      .hidden = p.hidden,
                                      .bias = p.bias,
                                      .dropout = p.dropout,
                                      .generator = &second});
    y_fused = y.detach();
    g_fused = tape.gradient(y, leaves, seed);
  }
  CHECK(first.state() == second.state());
  CHECK(allclose(y_fused, y_composed, tolerance, tolerance));
  for (const Tensor& leaf : leaves)
    CHECK(allclose(g_fused[leaf], g_composed[leaf], tolerance, tolerance));
}

Problem random_problem(std::int64_t heads, std::int64_t key_heads, std::int64_t queries,
                       std::int64_t keys, DType dtype = DType::f64) {
  Generator random(static_cast<std::uint64_t>(queries * 1000 + keys));
  const auto leaf = [&](const Shape& shape) { return parameter(randn(shape, dtype, random)); };
  Problem p;
  p.q = leaf({2, heads, queries, 5});
  p.k = leaf({2, key_heads, keys, 5});
  p.v = leaf({2, key_heads, keys, 3});
  return p;
}

// Sums of up to 131 products in another order: a few hundred roundings of f64 (2e-16) or f32
// (6e-8).
constexpr double f64_tolerance = 1e-12, f32_tolerance = 2e-5;

// Nobody sees the keys from 70 on: what is in them changes nothing.
void check_hidden_keys_stay_out(const Problem& p, bool create_graph) {
  const auto poison = [](const Tensor& x, double value) {
    Tensor copy = parameter(add(x.detach(), 0.0));
    fill_(narrow(copy.detach(), 2, 70, 10), value);
    return copy;
  };
  Problem poisoned = p;
  poisoned.k = poison(p.k, not_a_number);
  poisoned.v = poison(p.v, infinity);
  const auto run = [&](const Problem& x) {
    Generator random(9);
    Tape tape;
    const Tensor y = fused_attention(
        x.q, x.k, x.v, {.causal_offset = x.causal_offset, .hidden = x.hidden, .bias = x.bias});
    const Gradients g = tape.gradient(y, {x.q, x.k, x.v}, randn(y.shape(), DType::f64, random),
                                      {.create_graph = create_graph});
    return List{y.detach(), g[x.q].detach(), g[x.k].detach(), g[x.v].detach()};
  };
  const List clean = run(p), dirty = run(poisoned);
  for (std::size_t i = 0; i < clean.size(); ++i)
    CHECK(allclose(dirty[i], clean[i], f64_tolerance, f64_tolerance));
}

}  // namespace

TEST_CASE("fused attention equals the composition from one position to several tiles") {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 131}) {
    CAPTURE(length);
    check_equal(random_problem(2, 2, length, length), f64_tolerance);
    check_equal(random_problem(2, 2, length, length, DType::f32), f32_tolerance);
    Problem causal = random_problem(2, 2, length, length);
    causal.causal_offset = 0;
    check_equal(causal, f64_tolerance);
  }
}

TEST_CASE("fused attention equals the composition with other numbers of keys and grouped heads") {
  check_equal(random_problem(4, 2, 7, 70), f64_tolerance);
  check_equal(random_problem(3, 1, 70, 7), f64_tolerance);
  Problem cached = random_problem(4, 2, 3, 90);
  cached.causal_offset = 87;
  check_equal(cached, f64_tolerance);
  Problem early = random_problem(2, 2, 3, 150);  // tiles of keys that no query sees
  early.causal_offset = 0;
  check_equal(early, f64_tolerance);
}

TEST_CASE("fused attention equals the composition with masks, biases and dropout together") {
  Generator random(5);
  Problem p = random_problem(2, 2, 67, 90);
  p.hidden = lt(rand({2, 1, 1, 90}, DType::f64, random), 0.3);
  p.bias = parameter(randn({2, 67, 90}, DType::f64, random));
  p.causal_offset = 10;
  check_equal(p, f64_tolerance);
  p.dropout = 0.4;
  check_equal(p, f64_tolerance);
}

TEST_CASE("without query heads keys and values have gradients of 0") {
  const Tensor q = parameter(zeros({2, 0, 5, 4}, DType::f64));
  const Tensor k = parameter(ones({2, 3, 6, 4}, DType::f64));
  const Tensor v = parameter(ones({2, 3, 6, 7}, DType::f64));
  Tape tape;
  const Tensor y = fused_attention(q, k, v);
  CHECK(y.shape() == Shape{2, 0, 5, 7});
  // Memory that was in use before, which is not zero by itself.
  for (const std::int64_t features : {4, 7}) full({2, 3, 6, features}, 7, DType::f64);
  const Gradients g = tape.gradient(y, {q, k, v}, zeros(y.shape(), DType::f64));
  CHECK(equal(g[k], zeros({2, 3, 6, 4}, DType::f64)));
  CHECK(equal(g[v], zeros({2, 3, 6, 7}, DType::f64)));
}

TEST_CASE("a query that sees nothing gives 0 and exactly no gradient") {
  Problem p = random_problem(1, 1, 4, 66);
  const Tensor row_two = eq(arange(4), 2.0);
  p.hidden = unsqueeze(row_two, 1);
  check_equal(p, f64_tolerance);
  Tape tape;
  const Tensor y = fused_attention(p.q, p.k, p.v, {.hidden = p.hidden});
  CHECK(equal(select(y.detach(), 2, 2), zeros({2, 1, 3}, DType::f64)));
  Generator random(8);
  const Gradients g = tape.gradient(y, {p.q}, randn(y.shape(), DType::f64, random));
  CHECK(equal(select(g[p.q], 2, 2), zeros({2, 1, 5}, DType::f64)));
}

TEST_CASE(
    "a query that sees one key, for whatever reason, passes exactly nothing to q, k and bias") {
  const auto check = [](const Problem& p, std::int64_t query) {
    Tape tape;
    const Tensor y = fused_attention(
        p.q, p.k, p.v, {.causal_offset = p.causal_offset, .hidden = p.hidden, .bias = p.bias});
    // Only the output of this query counts, so that dk is its alone.
    Tensor seed = zeros(y.shape(), y.dtype());
    Generator random(10);
    const Tensor row = select(seed, 2, query);
    copy_(row, randn(row.shape(), y.dtype(), random));
    const Gradients g = tape.gradient(y, {p.q, p.k, p.bias}, seed);
    for (const Tensor& x : {p.q, p.k, p.bias}) CHECK(equal(g[x], zeros(x.shape(), x.dtype())));
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto bias_of = [&](const Tensor& hidden) {
      Tensor bias = zeros({3, 130}, dtype);
      if (hidden.defined()) bias = masked_fill(std::move(bias), hidden, -infinity);
      return parameter(std::move(bias));
    };
    const auto problem = [&] {
      Problem p = random_problem(4, 2, 3, 130, dtype);
      p.bias = bias_of({});
      return p;
    };
    const Tensor others = ne(arange(130), 100.0);
    Problem hidden = problem();
    hidden.hidden = others;
    for (const std::int64_t query : {0, 1, 2}) check(hidden, query);
    Problem biased = problem();
    biased.bias = bias_of(others);
    for (const std::int64_t query : {0, 1, 2}) check(biased, query);
    Problem causal = problem();
    causal.causal_offset = 0;
    check(causal, 0);
    causal.hidden = eq(arange(130), 0.0);
    check(causal, 1);
  }
}

TEST_CASE("a weight that rounds to 1 beside keys that are seen keeps its part of the gradient") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto leaf = [&](std::vector<double> values, const Shape& shape) {
      return parameter(from_vector(values, shape, dtype));
    };
    Problem p;
    p.q = leaf({1, 0}, {1, 1, 1, 2});
    p.k = leaf({48, 1, 0, 2}, {1, 1, 2, 2});  // exp(-0.37 * 48) is 2e-8
    p.v = leaf({0, 1e6}, {1, 1, 2, 1});
    check_equal(p, f32_tolerance);
  }
}

TEST_CASE("NaN and infinity in keys and values hidden by -infinity in bias stay out as well") {
  const Tensor q = parameter(tensor({{1, 0}}, DType::f64));
  const Tensor k = parameter(tensor({{1, 1}, {not_a_number, infinity}}, DType::f64));
  const Tensor v = parameter(tensor({{1}, {not_a_number}}, DType::f64));
  const Tensor bias = parameter(tensor({{0, -infinity}}, DType::f64));
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    Tape tape;
    const Tensor y = fused_attention(q, k, v, {.bias = bias});
    CHECK(y.item() == 1);
    const Gradients g = tape.gradient(y, {q, k, v, bias}, {}, {.create_graph = create_graph});
    CHECK(g[q].to_vector() == std::vector<double>{0, 0});
    CHECK(g[k].to_vector() == std::vector<double>{0, 0, 0, 0});
    CHECK(g[v].to_vector() == std::vector<double>{1, 0});
    CHECK(g[bias].to_vector() == std::vector<double>{0, 0});
  }
}

TEST_CASE("NaN and infinity in hidden keys and values stay out of results and gradients") {
  Problem p = random_problem(4, 2, 5, 80);
  for (const bool create_graph : {false, true})
    for (const int reason : {0, 1, 2}) {
      CAPTURE(create_graph);
      CAPTURE(reason);
      p.hidden = p.bias = Tensor();
      p.causal_offset.reset();
      const Tensor last = ge(arange(80), 70.0);
      if (reason == 0) p.hidden = last;
      if (reason == 1) p.bias = masked_fill(zeros({4, 5, 80}, DType::f64), last, -infinity);
      if (reason == 2) p.causal_offset = 65;  // the last of five queries sees the keys to 69
      check_hidden_keys_stay_out(p, create_graph);
    }
}

TEST_CASE(
    "single rows of any stride are read right: expanded queries and keys, and no head at all") {
  Generator random(12);
  const auto leaf = [&](const Shape& shape) { return parameter(randn(shape, DType::f64, random)); };
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& seed) {
    Tape tape;
    const List leaves{q, k, v};
    List wide;
    for (const Tensor& x : leaves) wide.push_back(expand(x, {2, 3, x.size(-2), x.size(-1)}));
    const Tensor y = fused_attention(wide[0], wide[1], wide[2], {.scale = 0.37});
    const Gradients g = tape.gradient(y, leaves, seed);
    return List{y.detach(), g[q], g[k], g[v]};
  };
  for (const std::int64_t keys : {1, 70}) {
    CAPTURE(keys);
    const Tensor q = leaf({1, 8}), k = leaf({keys, 8}), v = leaf({keys, 5});
    const Tensor seed = randn({2, 3, 1, 5}, DType::f64, random);
    const List fused = attend(q, k, v, seed);
    Tape tape;
    const Tensor scores = mul(matmul(q, transpose(k, 0, 1)), 0.37);
    const Tensor y = matmul(softmax(scores, -1), v);
    const Gradients g = tape.gradient(y, {q, k, v}, sum(seed, {0, 1}));
    CHECK(allclose(fused[0], expand(y.detach(), {2, 3, 1, 5}), f64_tolerance, f64_tolerance));
    CHECK(allclose(fused[1], g[q], f64_tolerance, f64_tolerance));
    CHECK(allclose(fused[2], g[k], f64_tolerance, f64_tolerance));
    CHECK(allclose(fused[3], g[v], f64_tolerance, f64_tolerance));
  }
  const Tensor none = leaf({2, 0, 4, 3});
  Tape tape;
  const Tensor y = fused_attention(none, none, none);
  CHECK(tape.gradient(y, {none}, zeros({2, 0, 4, 3}, DType::f64))[none].shape() == none.shape());
}

TEST_CASE("a large bias on a whole row, which moves no weight, moves no gradient") {
  // Powers of two, so that the scores of the row are all rounded alike, to equal.
  const auto check = [](DType dtype, double bias, double tolerance) {
    CAPTURE(to_string(dtype));
    Problem p = random_problem(2, 2, 5, 70, dtype);
    Tensor rows = zeros({5, 70}, dtype);
    fill_(select(rows, 0, 2), bias);
    p.bias = parameter(std::move(rows));
    check_equal(p, tolerance);
  };
  check(DType::f32, -0x1p30, f32_tolerance);
  check(DType::f64, -0x1p60, f64_tolerance);
}

TEST_CASE("a causal offset beyond the keys hides nothing, however large") {
  const Problem p = random_problem(2, 2, 5, 7);
  const Tensor all = fused_attention(p.q.detach(), p.k.detach(), p.v.detach());
  for (const std::int64_t offset : {std::int64_t{6}, std::numeric_limits<std::int64_t>::max()})
    CHECK(equal(
        fused_attention(p.q.detach(), p.k.detach(), p.v.detach(), {.causal_offset = offset}), all));
}

TEST_CASE("second derivatives of fused attention replay its dropout") {
  const auto attend = [](const std::vector<Tensor>& in) {
    Generator generator(4);
    return fused_attention(in[0], in[1], in[2],
                           {.causal_offset = 0, .dropout = 0.4, .generator = &generator});
  };
  Generator random(8);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(randn({1, 2, 3, 2}, DType::f64, random));
  check_second_order(attend, inputs);
}

TEST_CASE("fused attention takes no negative offset and no dropout outside [0, 1]") {
  const Tensor q = zeros({2, 3});
  check_throws(ErrorKind::value, {"fused_attention", "causal_offset -1"},
               [&] { fused_attention(q, q, q, {.causal_offset = -1}); });
  check_throws(ErrorKind::value, {"fused_attention", "dropout 1.5"},
               [&] { fused_attention(q, q, q, {.dropout = 1.5}); });
}

TEST_CASE("dropout of more scores than can be counted is a ShapeError, without memory for them") {
  const DryRun dry;
  const Tensor q = zeros({std::int64_t{1} << 40, 1});
  check_throws(ErrorKind::shape, {"fused_attention", "(1, 1, 1099511627776, 1099511627776)"},
               [&] { fused_attention(q, q, q, {.dropout = 0.5}); });
}

TEST_CASE("fused attention saves q, k, v, y and the row statistics, and nothing of T x T") {
  const std::int64_t length = 300;
  Problem p = random_problem(2, 2, length, length);
  Tape tape;
  const Tensor y = fused_attention(p.q, p.k, p.v, {.causal_offset = 0});
  // Leaves are parameters; what is left are y, and maximum and sum of each query, in f64.
  CHECK(tape.graph().saved_activation_bytes() == 8 * (2 * 2 * length * 3 + 2 * 2 * 2 * length));
}

}  // namespace tapehead::tests
