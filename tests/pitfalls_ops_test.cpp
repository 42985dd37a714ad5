// Faults that users of other frameworks met: ties, zeros, bounds, powers, positions. A fault has an
// id, which opens the names of its tests, here and in the files of the operations. Without an
// operation yet: EDGE-7 (cumprod), GATH-3's scatter that assigns.
#include "support/checks.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <cmath>
#include <functional>

using namespace tapehead;
using tests::f64;
using tests::infinity;

namespace {

using Values = std::vector<double>;
using Function = std::function<Tensor(const Tensor&)>;

// The gradient of sum(f(x)): from the fused kernels and, under create_graph, from the rules as
// recorded operations, which must agree bit for bit.
Values gradient_of(const Function& f, Tensor x) {
  const Tensor leaf = parameter(std::move(x));
  Tape tape;
  const Tensor y = f(leaf), upstream = ones_like(y);
  const Tensor recorded = tape.gradient(y, {leaf}, upstream, {.create_graph = true})[leaf];
  const Tensor fused = tape.gradient(y, {leaf}, upstream)[leaf];
  CHECK(fused.to_vector() == recorded.to_vector());
  return fused.to_vector();
}

}  // namespace

// ---- second derivatives -------------------------------------------------------------------------

namespace {

// The first `count` derivatives of f at the number x.
Values derivatives(const Function& f, double x, int count) {
  const Tensor leaf = parameter(f64(x));
  Tape tape;
  Tensor y = f(leaf);
  Values values;
  for (int order = 1; order <= count; ++order) {
    y = tape.gradient(y, {leaf}, {}, {.create_graph = true})[leaf];
    values.push_back(y.item());
  }
  return values;
}

}  // namespace

TEST_CASE("HESS-1: powers have right derivatives of every order, at 0 too") {
  const auto by_number = [](double exponent) -> Function {
    return [=](const Tensor& x) { return pow(x, exponent); };
  };
  const auto by_tensor = [](double exponent) -> Function {
    return [=](const Tensor& x) { return pow(x, f64(exponent)); };
  };
  for (const auto& power : {std::function(by_number), std::function(by_tensor)}) {
    CHECK(derivatives(power(3), 2, 3) == Values{12, 12, 6});
    CHECK(derivatives(power(2), 0, 3) == Values{0, 2, 0});
    CHECK(derivatives(power(1), 0, 2) == Values{1, 0});
    CHECK(derivatives(power(3), 0, 3) == Values{0, 0, 6});
  }
  CHECK(derivatives([](const Tensor& x) { return square(x); }, 0, 2) == Values{0, 2});
}

// ---- ties, zeros and edges ----------------------------------------------------------------------

TEST_CASE("EDGE-1: however ties are broken, the gradients add up to the upstream gradient") {
  const Function largest = [](const Tensor& x) { return amax(x); };
  const Function smallest = [](const Tensor& x) { return amin(x); };
  const Function first_largest = [](const Tensor& x) { return max(x, 0).values; };
  const Function first_smallest = [](const Tensor& x) { return min(x, 0).values; };
  CHECK(gradient_of(largest, f64({2, 2, 1})) == Values{0.5, 0.5, 0});
  CHECK(gradient_of(smallest, f64({2, 1, 1})) == Values{0, 0.5, 0.5});
  CHECK(gradient_of(first_largest, f64({2, 2, 1})) == Values{1, 0, 0});
  CHECK(gradient_of(first_smallest, f64({2, 1, 1})) == Values{0, 1, 0});

  for (const auto& f : {maximum, minimum}) {
    const Tensor three = f64({3});
    CHECK(gradient_of([&](const Tensor& a) { return f(a, three); }, f64({3})) == Values{0.5});
    CHECK(gradient_of([&](const Tensor& b) { return f(three, b); }, f64({3})) == Values{0.5});
  }
  const Function columns = [](const Tensor& x) { return amax(x, {0}); };
  CHECK(gradient_of(columns, ones({4, 3}, DType::f64)) == Values(12, 0.25));
  CHECK(gradient_of(first_largest, ones({4, 3}, DType::f64)) ==
        Values{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("EDGE-2: powers of 0 have the gradients of the limit, not 0 times infinity") {
  const Tensor exponents = f64({0, 1, 2, 0.5, -1});
  const Values right = {0, 1, 0, infinity, -infinity};
  CHECK(gradient_of([&](const Tensor& x) { return pow(x, exponents); }, zeros({5}, DType::f64)) ==
        right);
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double exponent = exponents.to_vector()[i];
    CAPTURE(exponent);
    CHECK(gradient_of([&](const Tensor& x) { return pow(x, exponent); }, f64({0})) ==
          Values{right[i]});
  }
  const Tensor a = f64({0, 2});
  const Values db = gradient_of([&](const Tensor& b) { return pow(a, b); }, f64({1, 1}));
  CHECK(db[0] == 0);
  CHECK(db[1] == doctest::Approx(2 * std::log(2.0)).epsilon(1e-15));
}

TEST_CASE("EDGE-3: norms have gradient 0 at 0, the square root an infinite one") {
  const Values unit = gradient_of([](const Tensor& x) { return norm(x); }, f64({3, 4}));
  CHECK(allclose(from_vector(unit, {2}), f64({0.6, 0.8}), 1e-15, 0));
  CHECK(gradient_of([](const Tensor& x) { return norm(x); }, f64({0, 0})) == Values{0, 0});
  CHECK(gradient_of([](const Tensor& x) { return norm(x, 1); }, f64({0, 0, 2})) == Values{0, 0, 1});
  CHECK(gradient_of([](const Tensor& x) { return sqrt(x); }, f64({0, 4})) ==
        Values{infinity, 0.25});
}

TEST_CASE("EDGE-4: the bounds of clamp belong to the inside, in every loop") {
  const Function clamped = [](const Tensor& x) { return clamp(x, 0, 1); };
  CHECK(gradient_of(clamped, f64({-1, 0, 0.5, 1, 2})) == Values{0, 1, 1, 1, 0});
  for (const DType dtype : {DType::f32, DType::f64}) {
    // Long enough for vector loops: row-major, then as a column among zeros.
    const Tensor row = repeat(tensor({-1, 0, 0.5, 1, 2}, dtype), {21});
    const Tensor right = repeat(f64({0, 1, 1, 1, 0}), {21});
    CHECK(gradient_of(clamped, clone(row)) == right.to_vector());
    const Function strided = [&](const Tensor& x) { return clamped(select(x, 1, 1)); };
    CHECK(gradient_of(strided, stack({row, row}, 1)) ==
          stack({zeros_like(right), right}, 1).to_vector());
  }
}

// ---- positions ----------------------------------------------------------------------------------

TEST_CASE("GATH-2: the padding row is read as any other and gets no gradient, in any size") {
  const Tensor weight = parameter(ones({5, 3}, DType::f64));
  fill_(select(weight.detach(), 0, 0), 7);
  for (const std::int64_t times : {1, 5000}) {
    const Tensor ids = repeat(tensor({{0, 1, 1, 2}}, DType::i64), {times, 1});
    Tape tape;
    const Tensor y = embedding(weight, ids, 0);
    CHECK(select(select(y, 0, 0), 0, 0).to_vector() == Values{7, 7, 7});
    const Tensor rows = sum(tape.gradient(sum(y), {weight})[weight], {1});
    CHECK(equal(rows * (1.0 / static_cast<double>(3 * times)), f64({0, 2, 1, 0, 0})));
  }
}
