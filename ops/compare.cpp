#include <tapehead/core/dry_run.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/kernels/pointwise.h>

#include <cmath>

namespace tapehead {
namespace {

// y = test(a, b), broadcast, for operands of any one dtype.
template <class Test>
Tensor compare(const char* operation, const Tensor& a, const Tensor& b, Test test) {
  check_same_dtype(operation, a, b);
  Tensor y = empty(operation, broadcast_shapes(operation, a.shape(), b.shape()), DType::boolean);
  launch([&] {
    visit_any(a.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, bool>(
          a.view(), b.view(), y.view(),
          [test](T ai, T bi) __attribute__((always_inline)) { return test(ai, bi); });
    });
  });
  return y;
}

// y = test(a, b) for a number b.
template <class Test>
Tensor compare(const char* operation, const Tensor& a, double b, Test test) {
  Tensor y = empty(operation, a.shape(), DType::boolean);
  launch([&] {
    visit_any(a.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using Common = std::conditional_t<std::is_floating_point_v<T>, T, double>;
      const Common number = static_cast<Common>(b);
      kernels::unary<T, bool>(a.view(), y.view(),
                              [test, number](T ai) __attribute__((always_inline)) {
                                return test(static_cast<Common>(ai), number);
                              });
    });
  });
  return y;
}

// y = test(x) for floating x.
template <class Test>
Tensor classify(const char* operation, const Tensor& x, Test test) {
  check_floating(operation, "x", x);
  Tensor y = empty(operation, x.shape(), DType::boolean);
  launch([&] {
    visit_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::unary<T, bool>(
          x.view(), y.view(),
          [test](T xi) __attribute__((always_inline)) { return test(xi); });
    });
  });
  return y;
}

template <class Logic>
Tensor combine(const char* operation, const Tensor& a, const Tensor& b, Logic logic) {
  check_dtype(operation, "a", a, DType::boolean);
  check_dtype(operation, "b", b, DType::boolean);
  Tensor y = empty(operation, broadcast_shapes(operation, a.shape(), b.shape()), DType::boolean);
  launch([&] { kernels::binary<bool, bool, bool>(a.view(), b.view(), y.view(), logic); });
  return y;
}

constexpr auto equal_to = [](auto a, auto b) { return a == b; };
constexpr auto not_equal_to = [](auto a, auto b) { return a != b; };
constexpr auto less = [](auto a, auto b) { return a < b; };
constexpr auto less_equal = [](auto a, auto b) { return a <= b; };
constexpr auto greater = [](auto a, auto b) { return a > b; };
constexpr auto greater_equal = [](auto a, auto b) { return a >= b; };

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", a, b, equal_to); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", a, b, not_equal_to); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", a, b, less); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", a, b, less_equal); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", a, b, greater); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", a, b, greater_equal); }

Tensor eq(const Tensor& a, double b) { return compare("eq", a, b, equal_to); }
Tensor ne(const Tensor& a, double b) { return compare("ne", a, b, not_equal_to); }
Tensor lt(const Tensor& a, double b) { return compare("lt", a, b, less); }
Tensor le(const Tensor& a, double b) { return compare("le", a, b, less_equal); }
Tensor gt(const Tensor& a, double b) { return compare("gt", a, b, greater); }
Tensor ge(const Tensor& a, double b) { return compare("ge", a, b, greater_equal); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return combine("logical_and", a, b,
                 [](bool x, bool y) __attribute__((always_inline)) { return x && y; });
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return combine("logical_or", a, b,
                 [](bool x, bool y) __attribute__((always_inline)) { return x || y; });
}
Tensor logical_not(const Tensor& a) {
  check_dtype("logical_not", "a", a, DType::boolean);
  Tensor y = empty("logical_not", a.shape(), DType::boolean);
  launch([&] {
    kernels::unary<bool, bool>(a.view(), y.view(),
                               [](bool x) __attribute__((always_inline)) { return !x; });
  });
  return y;
}

Tensor isfinite(const Tensor& x) {
  return classify("isfinite", x, [](auto value) { return std::isfinite(value); });
}
Tensor isnan(const Tensor& x) {
  return classify("isnan", x, [](auto value) { return std::isnan(value); });
}

}  // namespace tapehead
