#include <tapehead/core/dry_run.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/kernels/pointwise.h>

#include <cmath>
#include <type_traits>

namespace tapehead {
namespace {

struct Equal {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct And {
  TAPEHEAD_INLINE bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  TAPEHEAD_INLINE bool operator()(bool a, bool b) const { return a || b; }
};
struct Not {
  TAPEHEAD_INLINE bool operator()(bool a) const { return !a; }
};
struct IsFinite {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T x) const {
    return std::isfinite(x);
  }
};
struct IsNan {
  template <class T>
  TAPEHEAD_INLINE bool operator()(T x) const {
    return std::isnan(x);
  }
};

// y = test(a, b), broadcast, for operands of any one dtype.
template <class Test>
Tensor compare(const char* operation, const Tensor& a, const Tensor& b, Test test) {
  check_computes(operation, "a", a);
  check_same_dtype(operation, a, b);
  Tensor y = empty(operation, broadcast_shapes(operation, a.shape(), b.shape()), DType::boolean);
  launch([&] {
    visit_numbers(a.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, bool>(a.view(), b.view(), y.view(), test);
    });
  });
  return y;
}

template <class Test, class Number>
struct AgainstNumber {
  Test test;
  Number number;
  template <class T>
  TAPEHEAD_INLINE bool operator()(T a) const {
    return test(static_cast<Number>(a), number);
  }
};

// y = test(a, b) for a number b.
template <class Test>
Tensor compare(const char* operation, const Tensor& a, double b, Test test) {
  check_computes(operation, "a", a);
  Tensor y = empty(operation, a.shape(), DType::boolean);
  launch([&] {
    visit_numbers(a.dtype(), [&](auto zero) {
      using T = decltype(zero);
      using Number = std::conditional_t<std::is_floating_point_v<T>, T, double>;
      const AgainstNumber<Test, Number> against{test, static_cast<Number>(b)};
      kernels::unary<T, bool>(a.view(), y.view(), against);
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
      kernels::unary<T, bool>(x.view(), y.view(), test);
    });
  });
  return y;
}

// y = logic(a, b), broadcast, for bool operands.
template <class Logic>
Tensor combine(const char* operation, const Tensor& a, const Tensor& b, Logic logic) {
  check_dtype(operation, "a", a, DType::boolean);
  check_dtype(operation, "b", b, DType::boolean);
  Tensor y = empty(operation, broadcast_shapes(operation, a.shape(), b.shape()), DType::boolean);
  launch([&] { kernels::binary<bool, bool, bool>(a.view(), b.view(), y.view(), logic); });
  return y;
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", a, b, Equal{}); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", a, b, NotEqual{}); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", a, b, Less{}); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", a, b, LessEqual{}); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", a, b, Greater{}); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", a, b, GreaterEqual{}); }

Tensor eq(const Tensor& a, double b) { return compare("eq", a, b, Equal{}); }
Tensor ne(const Tensor& a, double b) { return compare("ne", a, b, NotEqual{}); }
Tensor lt(const Tensor& a, double b) { return compare("lt", a, b, Less{}); }
Tensor le(const Tensor& a, double b) { return compare("le", a, b, LessEqual{}); }
Tensor gt(const Tensor& a, double b) { return compare("gt", a, b, Greater{}); }
Tensor ge(const Tensor& a, double b) { return compare("ge", a, b, GreaterEqual{}); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return combine("logical_and", a, b, And{}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return combine("logical_or", a, b, Or{}); }
Tensor logical_not(const Tensor& a) {
  check_dtype("logical_not", "a", a, DType::boolean);
  Tensor y = empty("logical_not", a.shape(), DType::boolean);
  launch([&] { kernels::unary<bool, bool>(a.view(), y.view(), Not{}); });
  return y;
}

Tensor isfinite(const Tensor& x) { return classify("isfinite", x, IsFinite{}); }
Tensor isnan(const Tensor& x) { return classify("isnan", x, IsNan{}); }

}  // namespace tapehead
