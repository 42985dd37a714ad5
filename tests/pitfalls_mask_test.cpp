// Faults that users of other frameworks met: masks, infinities and NaN. A fault has an id, which
// opens the names of its tests, here and in the files of the operations.
#include "support/checks.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/attention.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <limits>

using namespace tapehead;
using nn::Mask;
using tests::boolean;
using tests::f64;
using tests::infinity;

namespace {

using Values = std::vector<double>;

// Equal up to a few roundings of a sum of products in double.
bool is(const Tensor& got, const NestedList& expected) {
  return allclose(got, f64(expected), 1e-14, 0);
}

}  // namespace

// ---- queries that see nothing -------------------------------------------------------------------

TEST_CASE("MASK-1: in fused attention one fully masked query row does not poison the rest") {
  const Tensor q = parameter(f64({{1}, {1}})), k = parameter(f64({{0}, {std::log(3.0)}}));
  const Tensor v = parameter(f64({{1}, {2}}));
  Tape tape;
  const Tensor y = fused_attention(q, k, v, {.hidden = boolean({{0, 0}, {1, 1}})});
  CHECK(is(y, {{1.75}, {0}}));
  const Gradients g = tape.gradient(select(select(y, 0, 0), 0, 0), {q, k, v});
  CHECK(is(g[q], {{0.1875 * std::log(3.0)}, {0}}));
  CHECK(is(g[k], {{-0.1875}, {0.1875}}));
  CHECK(is(g[v], {{0.25}, {0.75}}));
}

TEST_CASE("MASK-2: left padding under a causal mask leaves no trace in two fused layers") {
  const auto layer = [](const Tensor& x, const Tensor& hidden) {
    return fused_attention(x, x, x, {.causal_offset = 0, .hidden = hidden});
  };
  const Tensor pad = boolean({{1, 0, 0}});
  const Tensor padded = layer(f64({{9}, {1}, {2}}), pad), plain = layer(f64({{1}, {2}}), {});
  const double a = std::exp(2.0), b = std::exp(4.0);  // the weights of the scores 2 * 1 and 2 * 2
  CHECK(is(padded, {{0}, {1}, {(a + 2 * b) / (a + b)}}));
  CHECK(allclose(narrow(padded, 0, 1, 2), plain, 0x1p-52, 0));  // one ulp
  const Tensor twice = layer(padded, pad);
  const Values values = twice.to_vector();
  CHECK(values[0] == 0);
  CHECK(values[1] == 1);
  CHECK(values[2] == doctest::Approx(1.739677).epsilon(1e-6));
  CHECK(allclose(narrow(twice, 0, 1, 2), layer(plain, {}), 0x1p-51, 0));  // an ulp a layer
}

TEST_CASE("MASK-6: a finite minus infinity lets the future in, true infinities and bools do not") {
  const Tensor zero = zeros({2, 1}), v = tensor({{1}, {2}});
  // Row 0: causality takes key 1, padding takes key 0. Row 1: padding takes key 0.
  const auto output = [&](const FusedAttentionOptions& options) {
    return fused_attention(zero, zero, v, options).to_vector();
  };
  const auto causal = [](double low) { return tensor({{0, low}, {0, 0}}); };
  const auto padding = [](double low) { return tensor({{low, 0}}); };
  SUBCASE("both bool: row 0 is empty") {
    CHECK(output({.causal_offset = 0, .hidden = boolean({{1, 0}})}) == Values{0, 2});
    CHECK(output({.hidden = boolean({{1, 1}, {1, 0}})}) == Values{0, 2});
    const Mask mask = Mask::causal() & Mask::padding(boolean({1, 0}));
    CHECK(nn::attention(zero, zero, v, {.mask = mask}).to_vector() == Values{0, 2});
  }
  SUBCASE("both -inf, added: row 0 is empty") {
    CHECK(output({.bias = causal(-infinity) + padding(-infinity)}) == Values{0, 2});
  }
  constexpr double lowest = std::numeric_limits<float>::lowest();
  SUBCASE("both the lowest float, added: row 0 sees everything, as documented") {
    CHECK(output({.bias = causal(lowest) + padding(lowest)}) == Values{1.5, 2});
  }
  SUBCASE("the padding twice: its sum is -inf, and row 0 sees the future alone") {
    const Tensor twice = padding(lowest) + padding(lowest);
    CHECK(twice.to_vector() == Values{-infinity, 0});
    CHECK(output({.bias = causal(lowest) + twice}) == Values{2, 2});
  }
}

// ---- selection ----------------------------------------------------------------------------------

TEST_CASE("MASK-3: masked_fill and where select in the gradient, they do not multiply") {
  const Tensor x = parameter(f64({1, infinity, NAN, 2}));
  const Tensor a = parameter(f64({1, 2})), b = parameter(f64({10, 20}));
  Tape tape;
  const Tensor filled = masked_fill(x, boolean({0, 1, 1, 0}), 0);
  CHECK(filled.to_vector() == Values{1, 0, 0, 2});
  for (const Tensor& upstream : {ones({4}, DType::f64), f64({1, NAN, infinity, 1})})
    CHECK(equal(tape.gradient(filled, {x}, upstream, {.keep = true})[x], f64({1, 0, 0, 1})));

  const Tensor chosen = where(boolean({1, 0}), a, b);
  CHECK(chosen.to_vector() == Values{1, 20});
  const Gradients g = tape.gradient(chosen, {a, b}, f64({1, infinity}));
  CHECK(g[a].to_vector() == Values{1, 0});
  CHECK(g[b].to_vector() == Values{0, infinity});
}

TEST_CASE("MASK-4: where around a singular function needs the argument selected too") {
  const Tensor x = parameter(f64({0, 4}));
  Tape tape;
  const Tensor trap = where(gt(x, 0), log(x), 0.0);
  CHECK(trap.to_vector() == Values{0, std::log(4.0)});
  const Values of_trap = tape.gradient(sum(trap), {x})[x].to_vector();
  CHECK(std::isnan(of_trap[0]));  // 0 * (1/0), as the documentation of where() says
  CHECK(of_trap[1] == 0.25);

  const Tensor safe = where(gt(x, 0), x, 1.0);
  const Tensor cure = where(gt(x, 0), log(safe), 0.0);
  CHECK(cure.to_vector() == Values{0, std::log(4.0)});
  CHECK(tape.gradient(sum(cure), {x})[x].to_vector() == Values{0, 0.25});
}

// ---- overflow -----------------------------------------------------------------------------------

TEST_CASE("CE-5: softplus and logsigmoid do not overflow") {
  const Tensor x = parameter(tensor({20, 100, 1000, -1000})), z = parameter(tensor({-300, 300}));
  Tape tape;
  const Tensor plus = softplus(x), log_of = logsigmoid(z);
  CHECK(plus.to_vector() == Values{20, 100, 1000, 0});
  CHECK(log_of.to_vector() == Values{-300, 0});
  CHECK(std::signbit(log_of.to_vector()[1]));
  const Tensor total = sum(plus) + sum(log_of);
  const Gradients g = tape.gradient(total, {x, z});
  CHECK(g[x].to_vector() == Values{1, 1, 1, 0});
  CHECK(g[z].to_vector() == Values{1, 0});
}
