// Attention on heads, and heads split from features and merged back. Biases, grouped heads and the
// choice of path are in attention_options_test.cpp.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/tensors.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/attention.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <cmath>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::f64;
using tests::noise;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("MASK-1 a query that sees nothing gives 0 and disturbs no gradient") {
  const Tensor q = parameter(f64({{1}, {1}})), k = parameter(f64({{0}, {std::log(3.0)}}));
  const Tensor v = parameter(f64({{1}, {2}}));
  const AttentionOptions options{.mask = Mask::keep(boolean({{1, 1}, {0, 0}})), .scale = 1};
  CHECK(attention_weights(q, k, options).to_vector() == Values{0.25, 0.75, 0, 0});
  Tape tape;
  const Tensor y = attention(q, k, v, options);
  CHECK(y.to_vector() == Values{1.75, 0});
  const Gradients g = tape.gradient(select(select(y, 0, 0), 0, 0), {q, k, v});
  const auto is = [&](const Tensor& gradient, const NestedList& expected) {
    return allclose(gradient, f64(expected), 1e-14, 0);
  };
  CHECK(is(g[q], {{0.1875 * std::log(3.0)}, {0}}));
  CHECK(is(g[k], {{-0.1875}, {0.1875}}));
  CHECK(is(g[v], {{0.25}, {0.75}}));
}

TEST_CASE(
    "MASK-2 left padding under a causal mask: real positions are as if unpadded, twice over") {
  const Mask mask = Mask::causal() & Mask::padding(boolean({1, 0, 0}));
  const auto layer = [](const Tensor& x, const Mask& m) {
    return attention(x, x, x, {.mask = m, .scale = 1});
  };
  const Tensor padded = layer(f64({{9}, {1}, {2}}), mask);
  const Tensor plain = layer(f64({{1}, {2}}), Mask::causal());
  CHECK(padded.to_vector()[0] == 0);
  CHECK(equal(narrow(padded, 0, 1, 2), plain));
  CHECK(padded.to_vector()[2] == doctest::Approx(1.880797).epsilon(1e-6));
  const Values twice = layer(padded, mask).to_vector();
  CHECK(twice[0] == 0);
  CHECK(twice[1] == 1);
  CHECK(twice[2] == doctest::Approx(1.739677).epsilon(1e-6));
}

TEST_CASE("ATTN-8 one key: the output is its value, and q and k have gradients of exactly 0") {
  const Tensor q = parameter(noise({1, 2}, 1)), k = parameter(noise({1, 2}, 2));
  const Tensor v = parameter(f64({{4, 5}})), upstream = f64({{0.3, -7}});
  Tape tape;
  const Tensor y = attention(q, k, v);
  CHECK(y.to_vector() == Values{4, 5});
  const Gradients g = tape.gradient(y, {q, k, v}, upstream);
  CHECK(g[q].to_vector() == Values{0, 0});
  CHECK(g[k].to_vector() == Values{0, 0});
  CHECK(equal(g[v], upstream));
}

TEST_CASE("ATTN-5 heads are split from the features and merged back, tokens unmixed") {
  const Tensor heads = f64({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});  // (heads, time, features)
  const Tensor merged = merge_heads(heads);
  CHECK(equal(merged, f64({{1, 2, 5, 6}, {3, 4, 7, 8}})));
  CHECK(equal(split_heads(merged, 2), heads));
  const Tensor batch = noise({3, 5, 8}, 4);
  CHECK(split_heads(batch, 4).shape() == Shape{3, 4, 5, 2});
  CHECK(equal(merge_heads(split_heads(batch, 4)), batch));
  check_throws(ErrorKind::shape, {"3 heads"}, [&] { split_heads(batch, 3); });
  check_throws(ErrorKind::shape, {"heads"}, [&] { merge_heads(noise({2, 2}, 1)); });
}

TEST_CASE("the lecture's five lines of backward, in plain loops, are the tape's gradients") {
  constexpr std::int64_t T = 5, E = 3, V = 4;
  const Tensor q = parameter(noise({T, E}, 1)), k = parameter(noise({T, E}, 2));
  const Tensor v = parameter(noise({T, V}, 3)), upstream = noise({T, V}, 4);
  Tape tape;
  const Tensor y = attention(q, k, v, {.mask = Mask::causal()});
  const Gradients g = tape.gradient(y, {q, k, v}, upstream);
  const Tape::Pause pause;
  const Values A = attention_weights(q, k, {.mask = Mask::causal()}).to_vector();
  const Values Q = q.to_vector(), K = k.to_vector(), Vs = v.to_vector();
  const Values Y = y.to_vector(), dY = upstream.to_vector();
  const double s = 1 / std::sqrt(3.0);
  const auto at = [](std::int64_t i, std::int64_t j, std::int64_t columns) {
    return static_cast<std::size_t>(i * columns + j);
  };
  Values dQ(T * E), dK(T * E), dV(T * V), dS(T * T);
  for (std::int64_t i = 0; i < T; ++i) {
    double D = 0;
    for (std::int64_t c = 0; c < V; ++c) D += dY[at(i, c, V)] * Y[at(i, c, V)];
    for (std::int64_t j = 0; j < T; ++j) {
      double dA = 0;
      for (std::int64_t c = 0; c < V; ++c) {
        dA += dY[at(i, c, V)] * Vs[at(j, c, V)];
        dV[at(j, c, V)] += A[at(i, j, T)] * dY[at(i, c, V)];
      }
      dS[at(i, j, T)] = A[at(i, j, T)] * (dA - D);
      for (std::int64_t c = 0; c < E; ++c) {
        dQ[at(i, c, E)] += s * dS[at(i, j, T)] * K[at(j, c, E)];
        dK[at(j, c, E)] += s * dS[at(i, j, T)] * Q[at(i, c, E)];
      }
    }
  }
  CHECK(allclose(g[q], from_vector(dQ, {T, E}), 0, 1e-12));
  CHECK(allclose(g[k], from_vector(dK, {T, E}), 0, 1e-12));
  CHECK(allclose(g[v], from_vector(dV, {T, V}), 0, 1e-12));
}

TEST_CASE("attention has right gradients of both orders, also with broadcast batches and no keys") {
  const Mask mask = Mask::keep(boolean({{1, 1, 0}, {0, 0, 0}}));
  const auto f = [&](const std::vector<Tensor>& in) {
    return attention(in[0], in[1], in[2], {.mask = mask, .scale = 0.7});
  };
  const std::vector<Tensor> inputs = {noise({2, 2, 4}, 1), noise({1, 3, 4}, 2),
                                      noise({2, 3, 2}, 3)};
  check_first_order(f, inputs);
  check_second_order(f, inputs);

  const Tensor nothing = attention(noise({2, 4}, 1), noise({0, 4}, 2), noise({0, 3}, 3));
  CHECK(nothing.to_vector() == Values(6, 0.0));
}

TEST_CASE(
    "attention's dropout replays one mask for any rerun, and leaves the weights' rows alone") {
  const Tensor q = noise({4, 8, 3}, 1), v = noise({4, 8, 3}, 2);
  manual_seed(9);
  const Tensor first = attention(q, q, v, {.dropout = 0.5});
  const Tensor second = attention(q, q, v, {.dropout = 0.5});
  manual_seed(9);
  CHECK(equal(attention(q, q, v, {.dropout = 0.5}), first));
  CHECK(!equal(first, second));
  const Tensor rows = sum(attention_weights(q, q, {.dropout = 0.5}), {-1});
  CHECK(allclose(rows, ones({4, 8}, DType::f64), 1e-14, 0));
  check_throws(ErrorKind::value, {"dropout"}, [&] { attention(q, q, v, {.dropout = 1.5}); });
}

TEST_CASE("operands of attention that do not fit are shape errors that name them") {
  const Tensor q = noise({2, 3}, 1), k = noise({4, 3}, 2), v = noise({5, 3}, 3);
  check_throws(ErrorKind::dtype, {"attention: q f32", "v f64"},
               [&] { attention(to(q, DType::f32), to(k, DType::f32), k); });
  check_throws(ErrorKind::shape, {"q f64 (2, 3)", "k f64 (4, 2)"}, [&] {
    attention(q, noise({4, 2}, 1), k);
  });
  check_throws(ErrorKind::shape, {"k f64 (4, 3)", "v f64 (5, 3)"}, [&] { attention(q, k, v); });
  check_throws(ErrorKind::shape, {"(3)"}, [&] { attention(noise({3}, 1), k, k); });
  check_throws(ErrorKind::shape, {"(5, 5)"}, [&] {
    attention(q, k, k, {.mask = Mask::hide(zeros({5, 5}, DType::boolean))});
  });
}
