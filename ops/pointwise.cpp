// The arithmetic functions of one tensor; how they are made is told in pointwise_node.h.
#include <tapehead/ops/binary.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/pointwise_node.h>

#include <tapehead/core/arithmetic.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tapehead {
namespace {

using namespace elementwise;
using kernels::erf;  // on numbers; on tensors the operation is found by its argument
using kernels::exp;
using kernels::log;
using std::abs;
using std::cos;
using std::sin;
using std::sqrt;

struct Neg : Function {
  static constexpr const char* name = "neg";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return -x;
  }
  Tensor pull(Tensor g) const { return -std::move(g); }
};

// -1, 0 or 1; a NaN stays. On tensors not recorded: its derivative is 0.
template <std::floating_point T>
TAPEHEAD_INLINE T sign(T x) {
  const T negative_or_zero = x < T(0) ? T(-1) : x;
  return x > T(0) ? T(1) : negative_or_zero;
}
struct Sign {
  template <class T>
  TAPEHEAD_INLINE T operator()(T x) const {
    return sign(x);
  }
};
Tensor sign(const Tensor& x) {
  Tensor y = empty("sign", x.shape(), x.dtype());
  launch([&] {
    visit_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::unary<T, T>(x.view(), y.view(), Sign{});
    });
  });
  return y;
}

struct Abs : Function {
  static constexpr const char* name = "abs";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * sign(x)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return abs(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * sign(x);
  }
};

struct AddScalar : Function {
  static constexpr const char* name = "add_scalar";
  double addend = 0;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x + static_cast<T>(addend);
  }
  Tensor pull(Tensor g) const { return g; }
  std::vector<Graph::Attribute> attributes() const { return {{"value", addend}}; }
};

struct MulScalar : Function {
  static constexpr const char* name = "mul_scalar";
  double factor = 1;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x * static_cast<T>(factor);
  }
  Tensor pull(Tensor g) const { return std::move(g) * factor; }
  std::vector<Graph::Attribute> attributes() const { return {{"value", factor}}; }
};

// Not x * (1 / divisor): that is rounded twice, and infinite where the divisor is tiny.
struct DivScalar : Function {
  static constexpr const char* name = "div_scalar";
  double divisor = 1;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x / static_cast<T>(divisor);
  }
  Tensor pull(Tensor g) const { return std::move(g) / divisor; }
  std::vector<Graph::Attribute> attributes() const { return {{"value", divisor}}; }
};

struct Exp : Function {
  static constexpr const char* name = "exp";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = g * y";
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return exp(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g * y;
  }
};

struct Log : Function {
  static constexpr const char* name = "log";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g / x";
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return log(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g / x;
  }
};

struct Sqrt : Function {
  static constexpr const char* name = "sqrt";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = g / (2 * y)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return sqrt(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g / (y * number<T>(2));
  }
};

struct Rsqrt : Function {
  static constexpr const char* name = "rsqrt";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = -g * y^3 / 2";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return T(1) / sqrt(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g * (y * y * y * number<T>(-0.5));
  }
};

struct Square : Function {
  static constexpr const char* name = "square";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * 2 * x";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x * x;
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * (x * number<T>(2));
  }
};

struct Reciprocal : Function {
  static constexpr const char* name = "reciprocal";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = -g * y^2";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return T(1) / x;
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g * -(y * y);
  }
};

struct Sin : Function {
  static constexpr const char* name = "sin";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * cos(x)";
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return sin(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * cos(x);
  }
};

struct Cos : Function {
  static constexpr const char* name = "cos";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = -g * sin(x)";
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return cos(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * -sin(x);
  }
};

struct Erf : Function {
  static constexpr const char* name = "erf";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * exp(-x^2) * 2 / sqrt(pi)";
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return erf(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * (exp(-(x * x)) * number<T>(2 * std::numbers::inv_sqrtpi));
  }
};

// x to a power that is known to the compiler where `whole` is not 0, so that the loop holds
// products instead of calls.
template <int whole, std::floating_point T>
TAPEHEAD_INLINE T power(T x, double exponent) {
  if constexpr (whole == 1) return x;
  else if constexpr (whole > 1) return x * power<whole - 1>(x, exponent);
  else return std::pow(x, static_cast<T>(exponent));
}
template <int whole>
Tensor power(const Tensor& x, double exponent) {
  return pow(x, exponent);
}

template <int whole>
struct PowScalar : Function {
  static constexpr const char* name = "pow_scalar";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * exponent * x^(exponent - 1)";
  static constexpr std::int64_t grain = costly_grain;
  static constexpr int one_less = whole == 0 ? 0 : whole - 1;
  double exponent = whole;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return power<whole>(x, exponent);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * (power<one_less>(x, exponent - 1) * number<T>(exponent));
  }
  std::vector<Graph::Attribute> attributes() const { return {{"exponent", exponent}}; }
};

// x^0: constant, but the gradient still hangs on g, so that it can be differentiated like others.
struct PowZero : Function {
  static constexpr const char* name = "pow_scalar";
  template <class T>
  TAPEHEAD_INLINE T value(T) const {
    return T(1);
  }
  Tensor pull(Tensor g) const {
    return where(filled(name, {}, DType::boolean, 0), std::move(g), 0.0);
  }
  std::vector<Graph::Attribute> attributes() const { return {{"exponent", 0.0}}; }
};

struct Clamp : Function {
  static constexpr const char* name = "clamp";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g where min <= x <= max";
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  double min = -infinity;  // a bound that was not given
  double max = infinity;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return kernels::clamp(x, min, max);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    const T not_above = where(le(x, number<T>(max)), g, number<T>(0));
    return where(ge(x, number<T>(min)), not_above, number<T>(0));
  }
  std::vector<Graph::Attribute> attributes() const {
    std::vector<Graph::Attribute> given;
    if (min != -infinity) given.push_back({"min", min});
    if (max != infinity) given.push_back({"max", max});
    return given;
  }
};

}  // namespace

Tensor neg(Tensor x) { return apply(Neg{}, std::move(x)); }
Tensor abs(Tensor x) { return apply(Abs{}, std::move(x)); }
Tensor add(Tensor x, double value) { return apply(AddScalar{{}, value}, std::move(x)); }
Tensor mul(Tensor x, double value) { return apply(MulScalar{{}, value}, std::move(x)); }
Tensor div(Tensor x, double value) { return apply(DivScalar{{}, value}, std::move(x)); }
Tensor exp(Tensor x) { return apply(Exp{}, std::move(x)); }
Tensor log(Tensor x) { return apply(Log{}, std::move(x)); }
Tensor sqrt(Tensor x) { return apply(Sqrt{}, std::move(x)); }
Tensor rsqrt(Tensor x) { return apply(Rsqrt{}, std::move(x)); }
Tensor square(Tensor x) { return apply(Square{}, std::move(x)); }
Tensor reciprocal(Tensor x) { return apply(Reciprocal{}, std::move(x)); }
Tensor sin(Tensor x) { return apply(Sin{}, std::move(x)); }
Tensor cos(Tensor x) { return apply(Cos{}, std::move(x)); }
Tensor erf(Tensor x) { return apply(Erf{}, std::move(x)); }

Tensor pow(Tensor x, double exponent) {
  if (exponent == 0) return apply(PowZero{}, std::move(x));
  if (exponent == 2) return apply(PowScalar<2>{}, std::move(x));
  if (exponent == 3) return apply(PowScalar<3>{}, std::move(x));
  return apply(PowScalar<0>{{}, exponent}, std::move(x));
}

Tensor clamp(Tensor x, std::optional<double> min, std::optional<double> max) {
  if (!min && !max)
    throw ValueError("clamp", "x " + describe(x) + ": neither min nor max is given");
  return apply(Clamp{{}, min.value_or(-Clamp::infinity), max.value_or(Clamp::infinity)},
               std::move(x));
}

}  // namespace tapehead
