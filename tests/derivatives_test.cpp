// Derivatives of whole functions as values: ops/derivatives.h.
#include "support/checks.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/derivatives.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

namespace tapehead::tests {
namespace {

// The products and sums below have a few factors: 1e-12 leaves room for their roundings in f64.
constexpr double tolerance = 1e-12;

bool close(const Tensor& a, const Tensor& b) { return allclose(a, b, tolerance, tolerance); }

Tensor random_f64(const Shape& shape) {
  static Generator generator(7);
  return randn(shape, DType::f64, generator);
}

}  // namespace

TEST_CASE("the Jacobian of a linear map is its matrix, in the shapes of result and argument") {
  const Tensor a = random_f64({3, 4}), x = random_f64({4, 2});
  const Tensor j = jacobian([&](const Tensor& t) { return matmul(a, t); }, x);
  REQUIRE(j.shape() == Shape{3, 2, 4, 2});
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t k = 0; k < 4; ++k)
        for (std::int64_t d = 0; d < 2; ++d) {
          const double got = select(select(select(select(j, 0, i), 0, c), 0, k), 0, d).item();
          CHECK(got == (c == d ? select(select(a, 0, i), 0, k).item() : 0.0));
        }
}

TEST_CASE("jvp and vjp are the Jacobian applied from the right and from the left") {
  const Tensor x = random_f64({5}), v = random_f64({5}), u = random_f64({3});
  const Tensor w = random_f64({3, 5});
  const TensorFunction f = [&](const Tensor& t) {
    const Tensor s = sin(t);
    return matmul(w, mul(s, exp(t)));
  };
  const Tensor j = jacobian(f, x);
  CHECK(close(jvp(f, x, v), matmul(j, v)));
  CHECK(close(vjp(f, x, u), matmul(u, j)));
}

TEST_CASE("hvp is the Hessian applied to a direction") {
  const Tensor x = random_f64({4}), v = random_f64({4});
  const TensorFunction f = [](const Tensor& t) { return sum(mul(square(t), sin(t))); };
  const TensorFunction gradient_of_f = [&](const Tensor& t) {
    const Tensor s = sin(t), c = cos(t);  // d (t^2 sin t) = 2 t sin t + t^2 cos t
    const Tensor first = mul(mul(t, 2), s);
    return add(first, mul(square(t), c));
  };
  CHECK(close(hvp(f, x, v), matmul(jacobian(gradient_of_f, x), v)));
}

TEST_CASE(
    "derivatives of what does not depend on x, or only linearly, are zeros of the right shape") {
  const Tensor x = random_f64({2, 3}), v = random_f64({2, 3});
  const TensorFunction constant = [](const Tensor&) { return ones({4}, DType::f64); };
  CHECK(equal(jacobian(constant, x), zeros({4, 2, 3}, DType::f64)));
  CHECK(equal(jvp(constant, x, v), zeros({4}, DType::f64)));
  CHECK(equal(vjp(constant, x, ones({4}, DType::f64)), zeros({2, 3}, DType::f64)));
  const TensorFunction linear_sum = [](const Tensor& t) { return sum(t); };
  CHECK(equal(hvp(linear_sum, x, v), zeros({2, 3}, DType::f64)));
  CHECK(equal(jvp([](const Tensor& t) { return t; }, x, v), v));
}

TEST_CASE("derivatives leave x and an enclosing tape alone") {
  Tensor x = parameter(random_f64({3}));
  const Tensor before = x.detach();
  Tape tape;
  const Tensor y = square(x);
  CHECK(
      close(hvp([](const Tensor& t) { return sum(square(t)); }, x.detach(), ones({3}, DType::f64)),
            full({3}, 2, DType::f64)));
  CHECK(tape.size() == 1);
  CHECK(close(tape.gradient(y, {x}, ones({3}, DType::f64))[x], mul(before, 2)));
}

TEST_CASE("derivatives name what does not fit") {
  const Tensor x = random_f64({3});
  check_throws(ErrorKind::value, {"jacobian: f holds no function"}, [&] { jacobian({}, x); });
  check_throws(ErrorKind::value, {"hvp: f holds no function"}, [&] { hvp({}, x, x); });
  const TensorFunction f = [](const Tensor& t) { return square(t); };
  check_throws(ErrorKind::shape, {"jvp", "v", "(2)", "(3)"}, [&] { jvp(f, x, random_f64({2})); });
  check_throws(ErrorKind::shape, {"vjp", "u", "(2)", "(3)"}, [&] { vjp(f, x, random_f64({2})); });
  check_throws(ErrorKind::dtype, {"jvp", "v", "f32"}, [&] { jvp(f, x, zeros({3})); });
  check_throws(ErrorKind::shape, {"(3)"}, [&] { hvp(f, x, random_f64({3})); });
  check_throws(ErrorKind::dtype, {"jacobian", "i64"}, [&] { jacobian(f, arange(3)); });
}

}  // namespace tapehead::tests
