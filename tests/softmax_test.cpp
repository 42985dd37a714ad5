// softmax and log_softmax: what the table of operation cases does not say of them. Names open with
// the id of the pitfall that a test is about.
#include "support/checks.h"
#include "support/ulps.h"
#include "support/values.h"

#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>

namespace tapehead::tests {
namespace {

using Values = std::vector<double>;

TEST_CASE("MASK-5: entries of -inf count for nothing and get gradient 0") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = parameter(tensor({0, -infinity, 0}, dtype));
    Tape tape;
    const Tensor lp = log_softmax(x, 0);
    const Tensor loss = neg(select(lp, 0, 0));
    CHECK(loss.item() == doctest::Approx(std::log(2)).epsilon(1e-7));
    const Values gradient = tape.gradient(loss, {x})[x].to_vector();
    CHECK(gradient[0] == doctest::Approx(-0.5).epsilon(1e-7));
    CHECK(gradient[1] == 0);
    CHECK(gradient[2] == doctest::Approx(0.5).epsilon(1e-7));
    CHECK(softmax(x.detach(), 0).to_vector() == Values{0.5, 0, 0.5});
  }
}

TEST_CASE("ZERO-4: softmax of a 0-d tensor is 1 with gradient 0, along dims 0 and -1 only") {
  for (const std::int64_t dim : {0, -1}) {
    const Tensor x = parameter(tensor(2, DType::f64));
    Tape tape;
    const Tensor y = softmax(x, dim);
    CHECK(y.item() == 1);
    CHECK(tape.gradient(y, {x})[x].item() == 0);
    CHECK(log_softmax(x.detach(), dim).item() == 0);
  }
  check_throws(ErrorKind::index, {"softmax", "dim 1"}, [] { softmax(tensor(2), 1); });
  check_throws(ErrorKind::index, {"log_softmax"}, [] { log_softmax(tensor(2), -2); });
}

// A batch whose row 1 is empty, along each of its dims.
Tensor with_empty_row(std::int64_t dim, DType dtype) {
  const Tensor rows = tensor({{1, 2, 3}, {-infinity, -infinity, -infinity}, {0, 0, 0}}, dtype);
  return dim == 1 ? rows : contiguous(transpose(rows, 0, 1));
}

TEST_CASE("An empty row is NaN by IEEE, or zeros with zero gradients when asked for") {
  for (const std::int64_t dim : {0, 1}) {
    const Tensor by_ieee = softmax(with_empty_row(dim, DType::f64), dim);
    const Tensor row = select(by_ieee, 1 - dim, 1);
    for (const double value : row.to_vector()) CHECK(std::isnan(value));

    const Tensor x = parameter(with_empty_row(dim, DType::f64));
    Tape tape;
    const Tensor y = softmax(x, dim, {.empty_row = EmptyRow::zero});
    CHECK(select(y, 1 - dim, 1).to_vector() == Values{0, 0, 0});
    CHECK(sum(y).item() == doctest::Approx(2).epsilon(1e-15));
    const Tensor g = tape.gradient(y, {x}, reshape(arange(9, DType::f64), {3, 3}))[x];
    CHECK(select(g, 1 - dim, 1).to_vector() == Values{0, 0, 0});
    // y_2 = (1, 1, 1) / 3, so g_2 = (u - mean(u)) / 3 for an upstream u that rises evenly.
    const Values of_even_row = select(g, 1 - dim, 2).to_vector();
    CHECK(of_even_row[1] == doctest::Approx(0).epsilon(1e-15));
    CHECK(of_even_row[2] > 0);
  }
}

TEST_CASE("The second derivative through an empty row is 0 when zeros were asked for") {
  const Tensor x = parameter(with_empty_row(1, DType::f64));
  Tape tape;
  const Tensor y = softmax(x, 1, {.empty_row = EmptyRow::zero});
  const Tensor upstream = reshape(arange(9, DType::f64), {3, 3});
  const Tensor g = tape.gradient(y, {x}, upstream, {.create_graph = true})[x];
  const Tensor h = tape.gradient(g, {x}, upstream)[x];
  CHECK(select(h, 0, 1).to_vector() == Values{0, 0, 0});
}

TEST_CASE("Rows with infinities or NaN are NaN, and their neighbours are not") {
  const Tensor x = tensor({{infinity, 0, 1}, {std::nan(""), 0, 1}, {1, 1, 1}});
  for (const auto& f : {softmax(x, 1), log_softmax(x, 1)}) {
    CHECK(std::isnan(f.to_vector()[0]));
    CHECK(std::isnan(f.to_vector()[4]));
    CHECK_FALSE(std::isnan(f.to_vector()[8]));
  }
}

TEST_CASE("A moved-in tensor is worked on in place, along any dim and in the gradient") {
  for (const std::int64_t dim : {0, 1}) {
    Tensor x = rand({4, 5});
    const std::uint64_t storage = x.storage()->id();
    const Tensor expected = softmax(x, dim);
    const Tensor y = softmax(std::move(x), dim);
    CHECK(y.storage()->id() == storage);
    CHECK(equal(y, expected));
    Tensor g = rand({4, 5});
    const std::uint64_t gradient_storage = g.storage()->id();
    const Tensor expected_dx = softmax_backward(g, y, dim);
    const Tensor dx = softmax_backward(std::move(g), y, dim);
    CHECK(dx.storage()->id() == gradient_storage);
    CHECK(equal(dx, expected_dx));
  }
}

TEST_CASE("An operand that somebody else holds is left alone") {
  const Tensor x = tensor({1, 2, 3});
  softmax(x, 0);
  log_softmax(x, 0);
  const Tensor view = narrow(x, 0, 0, 2);
  softmax(view, 0);
  CHECK(x.to_vector() == Values{1, 2, 3});
}

// By the definition, in double, along the last dim of a row-major copy.
Values plain_softmax(const Tensor& x, bool log) {
  Values values = contiguous(x).to_vector();
  const std::size_t n = static_cast<std::size_t>(x.size(-1));
  for (std::size_t begin = 0; begin < values.size(); begin += n) {
    double largest = -infinity, total = 0;
    for (std::size_t i = begin; i < begin + n; ++i) largest = std::max(largest, values[i]);
    for (std::size_t i = begin; i < begin + n; ++i) total += std::exp(values[i] - largest);
    for (std::size_t i = begin; i < begin + n; ++i)
      values[i] =
          log ? values[i] - largest - std::log(total) : std::exp(values[i] - largest) / total;
  }
  return values;
}

TEST_CASE("Along every dim, for short and long rows, the values are those of the definition") {
  Generator generator(5);
  for (const Shape& shape : {Shape{3, 1, 7}, Shape{2, 700, 3}, Shape{5, 31, 300}, Shape{1100}}) {
    for (std::int64_t dim = 0; dim < shape.rank(); ++dim) {
      CAPTURE(to_string(shape));
      CAPTURE(dim);
      const Tensor x = mul(randn(shape, DType::f32, generator), 4);
      const std::int64_t last = shape.rank() - 1;
      const Tensor lines = transpose(x, dim, last);
      const auto check = [&](const Tensor& y, bool log) {
        const Values got = contiguous(transpose(y, dim, last)).to_vector();
        const Values want = plain_softmax(lines, log);
        REQUIRE(got.size() == want.size());
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          worst = std::max(worst, std::abs(got[i] - want[i]) / std::max(1.0, std::abs(want[i])));
        // Four roundings of float: of x - max, of exp, of its sum and of the quotient.
        CHECK(worst < 4 * 0x1p-24);
      };
      check(softmax(x, dim), false);
      check(log_softmax(x, dim), true);
    }
  }
}

TEST_CASE(
    "Along columns, the products in the gradient of softmax are not rounded before their sum") {
  const double near_one = 1 + 0x1p-12;  // its square has 25 significant bits, a float 24
  const Tensor g = tensor({{near_one, 0}, {-1, 0}, {0, 0}});
  const Tensor y = tensor({{near_one, 0}, {1, 0}, {1, 0}});
  CHECK(softmax_backward(g, y, 0).to_vector()[4] == -(0x1p-11 + 0x1p-24));
}

TEST_CASE("The gradient of a short row is right to a rounding or two where g and its mean cancel") {
  const Values g{1 + 0x1p-20, 1, 1 - 0x1p-20}, y{0.3, 0.5, 0.2};
  const auto gradient = [&](DType dtype) {
    const Tensor rounded = from_vector(y, {1, 3}, DType::f32);
    return softmax_backward(from_vector(g, {1, 3}, dtype), to(rounded, dtype), 1).to_vector();
  };
  const Values got = gradient(DType::f32), want = gradient(DType::f64);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(2 * 0x1p-24).scale(0));
}

TEST_CASE("The weights of a float32 row are right to less than two units in the last place") {
  // Sixteenths, so that x - max is exact. What remains is 1.1 of exp (math.h) and half a unit of
  // the product: 1.6, or 1.8 where no fused multiply-add saves a rounding. A rounded factor gives
  // 2.06.
  Generator generator(3);
  const Tensor rows = mul(to(randint(-64, 65, {20000, 5}, generator), DType::f32), 0x1p-4);
  for (const Tensor& x : {rows, contiguous(transpose(rows, 0, 1))}) {
    const std::int64_t dim = x.shape()[0] == 5 ? 0 : 1;
    const Tensor exact = softmax(to(x, DType::f64), dim);
    CHECK(largest_error_in_ulps(softmax(x, dim), exact) <= 1.9);
  }
}

TEST_CASE("softmax and its gradient do not depend on the number of threads") {
  Generator generator(9);
  const Tensor x = randn({300, 513}, DType::f32, generator);
  const Tensor g = randn({300, 513}, DType::f32, generator);
  for (const std::int64_t dim : {0, 1}) {
    const auto run = [&](int threads) {
      const ThreadBudget budget(threads);
      const Tensor y = softmax(x, dim);
      return std::vector{y, log_softmax(x, dim), softmax_backward(g, y, dim)};
    };
    const auto one = run(1), many = run(8);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(equal(one[i], many[i]));
  }
}

}  // namespace
}  // namespace tapehead::tests
