// Reductions, running sums and searches: what the table of operation cases does not say of them.
// Names open with the id of the pitfall that a test is about.
#include "support/checks.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/prod.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <cmath>
#include <functional>

namespace tapehead::tests {
namespace {

using Values = std::vector<double>;

// The gradient of sum(f(x) * upstream), row-major.
Values gradient_of(const std::function<Tensor(const Tensor&)>& f, Tensor x, Tensor upstream = {}) {
  const Tensor leaf = parameter(std::move(x));
  Tape tape;
  const Tensor y = f(leaf);
  if (!upstream.defined()) upstream = ones_like(y);
  return tape.gradient(y, {leaf}, upstream)[leaf].to_vector();
}

TEST_CASE("BCAST-2: the gradient of a mean over several dims goes back to the right places") {
  const std::vector<Dims> spellings = {{1, 2}, {2, 1}, {-1, 1}, {-2, -1}};
  const Values want = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  for (const Dims& dims : spellings) {
    CAPTURE(to_string(dims));
    for (const bool keepdim : {false, true}) {
      const Shape shape = keepdim ? Shape{2, 1, 1} : Shape{2};
      const auto f = [&](const Tensor& x) { return mean(x, dims, keepdim); };
      const Tensor upstream = reshape(numbers({12, 24}), shape);
      CHECK(gradient_of(f, ones({2, 3, 4}, DType::f64), upstream) == want);
    }
  }
  const auto all = [](const Tensor& x) { return mean(x, {}, true); };
  CHECK(all(ones({2, 3, 4})).shape() == Shape{1, 1, 1});
  CHECK(gradient_of(all, ones({2, 3, 4}, DType::f64), full({1, 1, 1}, 24, DType::f64)) ==
        Values(24, 1.0));
}

TEST_CASE("ZERO-3: summing back over an empty broadcast dim gives zeros, not a shape error") {
  const Tensor a = parameter(zeros({4, 0}, DType::f64));
  const Tensor b = parameter(numbers({1, 2, 3, 4}));
  Tape tape;
  const Tensor total = sum(add(a, reshape(b, {4, 1})));
  const Gradients gradients = tape.gradient(total, {a, b});
  CHECK(total.item() == 0);
  CHECK(gradients[b].shape() == Shape{4});
  CHECK(gradients[b].to_vector() == Values(4, 0.0));
  CHECK(gradients[a].shape() == Shape{4, 0});
}

TEST_CASE("ZERO-4: a 0-d tensor takes dims 0 and -1, and no other") {
  const Tensor x = tensor(2, DType::f64);
  for (const std::int64_t dim : {0, -1}) {
    CHECK(sum(x, {dim}).shape() == Shape{});
    CHECK(sum(x, {dim}, true).shape() == Shape{});
    CHECK(sum(x, {dim}).item() == 2);
    CHECK(argmax(x, dim).item<std::int64_t>() == 0);
    CHECK(cumsum(x, dim).item() == 2);
    CHECK(max(x, dim).values.item() == 2);
  }
  check_throws(ErrorKind::index, {"sum", "dim 1"}, [&] { sum(x, {1}); });
  CHECK(gradient_of([](const Tensor& y) { return mean(square(y), {0}); }, ones({5}, DType::f64)) ==
        Values(5, 0.4));
}

TEST_CASE("Over an empty dim: sum 0, prod 1, mean NaN, logsumexp -inf, any false, all true") {
  const Tensor x = zeros({2, 0}, DType::f64);
  CHECK(sum(x, {1}).to_vector() == Values{0, 0});
  CHECK(prod(x, 1).to_vector() == Values{1, 1});
  CHECK(std::isnan(mean(x, {1}).to_vector()[1]));
  CHECK(logsumexp(x, {1}).to_vector() == Values{-infinity, -infinity});
  CHECK(norm(x, 2, {1}).to_vector() == Values{0, 0});
  const Tensor none = zeros({2, 0}, DType::boolean);
  CHECK(any(none, {1}).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(all(none, {1}).to_vector<bool>() == std::vector<bool>{true, true});
  for (const auto& f : {amax, amin})
    check_throws(ErrorKind::shape, {"(2, 0)"}, [&] { f(x, {1}, false); });
  check_throws(ErrorKind::shape, {"argmax"}, [&] { argmax(x, 1); });
  CHECK(amax(x, {0}).shape() == Shape{0});
}

TEST_CASE("EDGE-1: amax shares between ties, max with index chooses the first") {
  const auto first = [](const Tensor& x) { return max(x, 0).values; };
  const auto shared = [](const Tensor& x) { return amax(x); };
  CHECK(gradient_of(shared, numbers({2, 2, 1})) == Values{0.5, 0.5, 0});
  CHECK(gradient_of(first, numbers({2, 2, 1})) == Values{1, 0, 0});
  const auto columns = [](const Tensor& x) { return amax(x, {0}); };
  CHECK(gradient_of(columns, ones({4, 3}, DType::f64)) == Values(12, 0.25));
}

TEST_CASE("The gradient of amax adds up to the upstream gradient where the maximum is NaN, too") {
  const auto f = [](const Tensor& x) { return amax(x, {1}); };
  const Tensor x = tensor({{1, not_a_number, 3}, {0, 5, 5}}, DType::f64);
  CHECK(gradient_of(f, clone(x), numbers({7, 3})) == Values{0, 7, 0, 0, 1.5, 1.5});
}

TEST_CASE("An infinite upstream gradient of amax makes no NaN of the elements that lost") {
  CHECK(gradient_of([](const Tensor& x) { return amax(x); }, numbers({1, 2}),
                    tensor(infinity, DType::f64)) == Values{0, infinity});
}

TEST_CASE("EDGE-3: the gradient of a norm is 0 at 0") {
  const auto norm2 = [](const Tensor& x) { return norm(x); };
  const auto norm1 = [](const Tensor& x) { return norm(x, 1); };
  const auto norm3 = [](const Tensor& x) { return norm(x, 3); };
  const auto largest = [](const Tensor& x) { return norm(x, infinity); };
  CHECK(norm(numbers({3, 4})).item() == 5);
  const Values of_34 = gradient_of(norm2, numbers({3, 4}));
  CHECK(of_34[0] == doctest::Approx(0.6).epsilon(1e-15));
  CHECK(of_34[1] == doctest::Approx(0.8).epsilon(1e-15));
  CHECK(gradient_of(norm2, numbers({0, 0})) == Values{0, 0});
  CHECK(gradient_of(norm1, numbers({0, 0, 2})) == Values{0, 0, 1});
  CHECK(gradient_of(norm3, numbers({0, 0})) == Values{0, 0});
  CHECK(gradient_of(largest, numbers({1, -3})) == Values{0, -1});
  // (27 + 64 + 125)^(1/3) = 6, and the slope is x^2 / 36; pow is right to a few roundings.
  CHECK(norm(numbers({3, 4, 5}), 3).item() == doctest::Approx(6).epsilon(1e-14));
  CHECK(gradient_of(norm3, numbers({3, 4, 5}))[2] == doctest::Approx(25.0 / 36).epsilon(1e-14));
  check_throws(ErrorKind::value, {"p ="}, [] { norm(ones({2}), 0); });
}

TEST_CASE("EDGE-3: the gradient of a norm with p < 2 is 0 where an element is, at both orders") {
  for (const double p : {0.5, 1.5}) {
    CAPTURE(p);
    const auto rows = [p](const Tensor& x) { return norm(x, p, {-1}); };
    const Values g_rows = gradient_of(rows, tensor({{0, 0}, {0, 3}}, DType::f64));
    CHECK(Values(g_rows.begin(), g_rows.end() - 1) == Values{0, 0, 0});
    CHECK(g_rows[3] == doctest::Approx(1).epsilon(1e-15));
    const Tensor x = parameter(numbers({0, 3}));
    Tape tape;
    const Tensor y = norm(x, p);
    const Tensor g = tape.gradient(y, {x}, {}, {.create_graph = true})[x];
    // |x| of the one element that is not 0 has no curvature: (p - 1) / 3 - (p - 1) / 3.
    for (const double h : tape.gradient(g, {x}, numbers({1, 1}))[x].to_vector())
      CHECK(std::abs(h) <= 1e-15);
  }
}

TEST_CASE("The second derivative of std and norm at 0 is 0, not NaN") {
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [](const Tensor& x) { return tapehead::std(x); }, [](const Tensor& x) { return norm(x); }};
  for (const auto& f : functions) {
    const Tensor x = parameter(zeros({3}, DType::f64));
    Tape tape;
    const Tensor y = f(x);
    const Tensor g = tape.gradient(y, {x}, {}, {.create_graph = true})[x];
    const Tensor s = sum(mul(g, numbers({1, 2, 3})));
    CHECK(g.to_vector() == Values{0, 0, 0});
    CHECK(tape.gradient(s, {x})[x].to_vector() == Values{0, 0, 0});
  }
}

TEST_CASE(
    "EDGE-3: the deviation of equal values is 0 with gradient 0, though their mean is rounded") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double value : {0.1, -1e-300, 12345.678, 1e15 / 3})
      for (const std::int64_t count : {3, 7, 1000}) {
        CAPTURE(value);
        CAPTURE(count);
        const Tensor x = parameter(full({count}, value, dtype));
        Tape tape;
        const Tensor y = tapehead::std(x);
        CHECK(y.item() == 0);
        CHECK(equal(tape.gradient(y, {x})[x], zeros({count}, dtype)));
      }
}

TEST_CASE("EDGE-5: the gradient of a product never divides by the input") {
  const auto f = [](const Tensor& x) { return prod(x, 0); };
  CHECK(gradient_of(f, numbers({2, 0, 3, 4})) == Values{0, 24, 0, 0});
  CHECK(gradient_of(f, numbers({2, 0, 0, 4})) == Values{0, 0, 0, 0});
}

TEST_CASE("The second derivative of a product is right with zeros in it") {
  const Tensor x = parameter(numbers({2, 0, 0, 4}));
  Tape tape;
  const Tensor y = prod(x, 0);
  const Tensor g = tape.gradient(y, {x}, {}, {.create_graph = true})[x];
  // d^2 y / dx_1 dx_2 = 2 * 4: the derivative of g_1 along x_2, and the other way round.
  const Tensor g1 = select(g, 0, 1);
  CHECK(tape.gradient(g1, {x})[x].to_vector() == Values{0, 0, 8, 0});
}

TEST_CASE(
    "The gradient of a product is one by IEEE, recorded or not, with infinities and NaN in it") {
  const auto check = [](const Values& values, const Values& want) {
    const Tensor x = parameter(numbers(values));
    for (const bool create_graph : {false, true}) {
      CAPTURE(create_graph);
      Tape tape;
      const Tensor y = prod(x, 0);
      const Tensor dx = tape.gradient(y, {x}, {}, {.create_graph = create_graph})[x];
      CHECK(allclose(dx.detach(), numbers(want), 0, 0, true));
    }
  };
  // With a zero in it these are PyTorch's.
  check({2, 3, 1.7e308, 0}, {0, 0, 0, infinity});
  check({0, 3, infinity}, {infinity, not_a_number, 0});
  check({0, 0, infinity}, {not_a_number, not_a_number, 0});
  check({0, not_a_number, 2}, {not_a_number, 0, not_a_number});
  check({1e300, 1e300, 0, 1e-300}, {0, 0, infinity, not_a_number});
  check({infinity, 2, 3}, {6, infinity, infinity});
  check({not_a_number, 2, 3}, {6, not_a_number, not_a_number});
}

TEST_CASE("EDGE-6: the variance of one element is NaN when corrected, else 0 with gradient 0") {
  CHECK(std::isnan(var(numbers({2})).item()));
  CHECK(var(numbers({2}), {}, 0).item() == 0);
  CHECK(gradient_of([](const Tensor& x) { return var(x, {}, 0); }, numbers({2})) == Values{0});
}

TEST_CASE("ACC-1: a float32 sum does not stop growing at 2^24") {
  const std::int64_t n = 20'000'000;
  const Tensor x = ones({n});
  CHECK(sum(x).item() == static_cast<double>(n));
  CHECK(mean(x).item() == 1);
  // As columns, too: the way of the gradient of a bias.
  const std::int64_t rows = n / 4;
  CHECK(sum(ones({rows, 4}), {0}).to_vector() == Values(4, static_cast<double>(rows)));
  const Tensor leaf = parameter(ones({n}));
  Tape tape;
  const Tensor average = mean(leaf);
  const Tensor g = tape.gradient(average, {leaf})[leaf];
  CHECK(equal(g, full({n}, static_cast<double>(5e-8f))));
}

TEST_CASE("ACC-3: tenths, variances, norms and means of float32 are right to a rounding") {
  CHECK(sum(full({1392640}, 0.1)).item() == doctest::Approx(139264.002).epsilon(1e-7));
  CHECK(var(tensor({1e6, 1e6 + 1, 1e6 + 2})).item() == 1);
  CHECK(var(tensor({1e6, 1e6 + 1, 1e6 + 2}), {}, 0).item() == static_cast<double>(2.0f / 3.0f));
  CHECK(norm(full({100}, 1e20)).item() == static_cast<double>(1e21f));
  CHECK(mean(full({4}, 3e38)).item() == static_cast<double>(3e38f));
}

TEST_CASE("The variance of float64 numbers with a large mean does not cancel") {
  // Of 0..4 the variance is 2.5; the deviations of 1e9 + 0..4 from their mean are exact.
  CHECK(var(numbers({1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4})).item() == 2.5);
}

TEST_CASE("The gradient of var is exactly 0 for equal values, though their mean is rounded") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double value : {0.1, 12345.678, 1e15 / 3})
      for (const std::int64_t count : {3, 7, 1000})
        CHECK(gradient_of([](const Tensor& x) { return var(x); }, full({count}, value, dtype)) ==
              Values(static_cast<std::size_t>(count), 0.0));
}

TEST_CASE("ACC-3: gradients of var and std do not feel a mean that float32 cannot hold") {
  // 2^20 + k / 8: the mean of eight of these lies between two floats.
  Values values, deviations;
  for (int k = 0; k < 8; ++k) {
    values.push_back(1048576 + k / 8.0);
    deviations.push_back((k - 3.5) / 8);
  }
  const double deviation = std::sqrt(5.25) / 8;
  for (const bool root : {false, true})
    for (const bool create_graph : {false, true}) {
      CAPTURE(root);
      CAPTURE(create_graph);
      const Tensor x = parameter(from_vector(values, {8}, DType::f32));
      Tape tape;
      const Tensor y = root ? tapehead::std(x, {}, 0) : var(x, {}, 0);
      const Values g = tape.gradient(y, {x}, {}, {.create_graph = create_graph})[x].to_vector();
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double want = deviations[i] / 8 * (root ? 1 / deviation : 2);
        CHECK(std::abs(g[i] - want) <= 4 * 0x1p-24 * std::abs(want));
      }
    }
}

TEST_CASE("The gradient of logsumexp is softmax, however coarse the result") {
  for (const double offset : {0.0, 1e7, 1e15}) {
    CAPTURE(offset);
    for (const bool create_graph : {false, true}) {
      const Tensor x = parameter(tensor({offset, offset + 2, offset, offset + 2}));
      Tape tape;
      const Tensor y = logsumexp(x);
      const Values g = tape.gradient(y, {x}, {}, {.create_graph = create_graph})[x].to_vector();
      const Values values = x.to_vector();
      const double small = std::exp(values[0] - values[1]);  // 2 is lost beside 1e15
      for (std::size_t i = 0; i < 4; ++i) {
        const double want = (i % 2 == 0 ? small : 1) / (2 + 2 * small);
        CHECK(std::abs(g[i] - want) <= 8 * 0x1p-24);
      }
    }
  }
  const auto rows = [](const Tensor& x) { return logsumexp(x, {1}); };
  const Values of_infinity = gradient_of(rows, tensor({{infinity, 3}, {-infinity, 3}}, DType::f64));
  CHECK(of_infinity[1] == 0);
  CHECK(of_infinity[2] == 0);
  CHECK(of_infinity[3] == 1);
}

TEST_CASE("logsumexp holds for large, infinite and missing values") {
  CHECK(logsumexp(numbers({1e4, 1e4})).item() == doctest::Approx(1e4 + std::log(2)).epsilon(1e-15));
  CHECK(logsumexp(numbers({-infinity, 3})).item() == 3);
  CHECK(logsumexp(numbers({-infinity, -infinity})).item() == -infinity);
  CHECK(logsumexp(numbers({infinity, 3})).item() == infinity);
  CHECK(std::isnan(logsumexp(numbers({not_a_number, 3})).item()));
  CHECK(gradient_of([](const Tensor& x) { return logsumexp(x); }, numbers({-infinity, 3})) ==
        Values{0, 1});
}

TEST_CASE("Searches take the first of equal values, and NaN before all others") {
  CHECK(argmax(numbers({1, 3, 3, 2})).item<std::int64_t>() == 1);
  CHECK(argmin(numbers({2, 1, 3, 1})).item<std::int64_t>() == 1);
  CHECK(argmax(numbers({1, not_a_number, 5, not_a_number})).item<std::int64_t>() == 1);
  CHECK(argmin(numbers({1, not_a_number, 5, not_a_number})).item<std::int64_t>() == 1);
  // The same along columns, which is another loop.
  const Tensor columns = tensor({{1, 4}, {not_a_number, 7}, {5, 7}, {not_a_number, 0}}, DType::f64);
  CHECK(argmax(columns, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
  CHECK(argmin(columns, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("argmax of long rows finds the place wherever it is") {
  for (const std::int64_t place : {0, 31, 32, 511, 512, 1000, 1299}) {
    Tensor x = rand({2, 1300});
    fill_(select(select(x, 0, 1), 0, place), 2);
    CHECK(argmax(x, 1).to_vector<std::int64_t>()[1] == place);
    CHECK(argmax(neg(x), 1).to_vector<std::int64_t>()[1] != place);
    CHECK(argmin(neg(x), 1).to_vector<std::int64_t>()[1] == place);
  }
}

TEST_CASE("topk gives values best first, the first of equals, and the gradient to the chosen") {
  const Tensor x = numbers({1, 5, not_a_number, 5, 2});
  const auto [values, indices] = topk(x, 3);
  CHECK(std::isnan(values.to_vector()[0]));
  CHECK(indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 1, 3});
  CHECK(topk(x, 4, 0, false).indices.to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 4, 1, 3});
  const Tensor columns = transpose(tensor({{3, 1, 2}, {4, 6, 5}}, DType::f64), 0, 1);
  const ValuesAndIndices best = topk(columns, 2, 0);
  CHECK(best.values.shape() == Shape{2, 2});
  CHECK(best.values.to_vector() == Values{3, 6, 2, 5});
  CHECK(best.indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 2});
  CHECK(gradient_of([](const Tensor& t) { return topk(t, 2).values; }, numbers({1, 7, 5, 2}),
                    numbers({10, 20})) == Values{0, 10, 20, 0});
  CHECK(topk(x, 0).values.shape() == Shape{0});
  const ValuesAndIndices of_scalar = topk(tensor(7), 1);
  CHECK(of_scalar.values.item() == 7);
  CHECK(of_scalar.indices.item<std::int64_t>() == 0);
  CHECK(of_scalar.values.shape() == Shape{});
  CHECK(topk(tensor(7), 0).indices.shape() == Shape{0});
  check_throws(ErrorKind::value, {"k = 6"}, [&] { topk(x, 6); });
  check_throws(ErrorKind::value, {"k = -1"}, [&] { topk(x, -1); });
}

// Sums by the definition, element by element in double.
Tensor plain_sum(const Tensor& x, const Shape& kept) {
  const Values values = contiguous(x).to_vector();
  const Strides strides = contiguous_strides(kept), from = contiguous_strides(x.shape());
  Values totals(static_cast<std::size_t>(numel(kept)), 0.0);
  for (std::size_t at = 0; at < values.size(); ++at) {
    std::int64_t rest = static_cast<std::int64_t>(at), to = 0;
    for (int i = 0; i < x.rank(); ++i) {
      const std::int64_t position = rest / from[i];
      rest %= from[i];
      if (kept[i] != 1) to += position * strides[i];
    }
    totals[static_cast<std::size_t>(to)] += values[at];
  }
  return from_vector(totals, kept, DType::f64);
}

TEST_CASE(
    "Sums over any dims of any layout are those of the definition, for any number of threads") {
  Generator generator(7);
  const std::vector<Shape> shapes = {{37, 3},     {3, 700, 5}, {2, 3, 4, 5},
                                     {1, 300, 1}, {6, 1000},   {70'000, 2}};
  for (const Shape& shape : shapes) {
    const Tensor straight = randn(shape, DType::f64, generator);
    Dims reversed;
    for (int i = shape.rank(); i-- > 0;) reversed.push_back(i);
    for (const Tensor& x :
         {straight, permute(straight, reversed), expand(unsqueeze(straight, 1), [&] {
            Shape wider = shape;
            wider.insert(1, 3);
            return wider;
          }())}) {
      for (std::int64_t mask = 1; mask < 1 << x.rank(); ++mask) {
        Dims dims;
        Shape kept = x.shape();
        for (int i = 0; i < x.rank(); ++i)
          if (mask >> i & 1) dims.push_back(i), kept[i] = 1;
        CAPTURE(to_string(x.shape()));
        CAPTURE(to_string(x.strides()));
        CAPTURE(to_string(dims));
        const Tensor got = sum(x, dims, true);
        // Up to 420000 terms near 1 whose sum may be small: an absolute error of some hundred ulps
        // of 1.
        CHECK(allclose(got, plain_sum(x, kept), 1e-12, 1e-11));
        const ThreadBudget eight(8);
        CHECK(equal(sum(x, dims, true), got));
      }
    }
  }
}

TEST_CASE("Large reductions do not depend on the number of threads") {
  Generator generator(3);
  const Tensor x = randn({3000, 700}, DType::f32, generator);
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}}) {
    const auto run = [&](int threads) {
      const ThreadBudget budget(threads);
      return std::vector{sum(x, dims), var(x, dims), logsumexp(x, dims), norm(x, 2, dims)};
    };
    const auto one = run(1), many = run(7);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(equal(one[i], many[i]));
  }
}

TEST_CASE("any and all take bool alone") {
  const Tensor mask = gt(tensor({{1, -1}, {-1, -1}}), 0);
  CHECK(any(mask, {1}).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(all(mask, {0}).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(any(mask).item<bool>());
  check_throws(ErrorKind::dtype, {"any", "f32"}, [] { any(ones({2})); });
}

TEST_CASE("sum_to undoes broadcasting, and gives back what was not broadcast") {
  const Tensor g = reshape(arange(24, DType::f64), {2, 3, 4});
  CHECK(sum_to(g, {2, 3, 4}).is_same(g));
  CHECK(sum_to(g, {3, 1}).to_vector() == Values{60, 92, 124});
  CHECK(sum_to(g, {}).item() == 276);
  CHECK(sum_to(g, {1, 3, 1}).shape() == Shape{1, 3, 1});
}

}  // namespace
}  // namespace tapehead::tests
