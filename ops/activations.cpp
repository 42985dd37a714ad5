// The activation functions; how they are made is told in pointwise_node.h.
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/pointwise_node.h>

#include <numbers>
#include <string>

namespace tapehead {
namespace {

using namespace elementwise;
using kernels::normal_cdf;  // on numbers; on tensors the operation is found by its argument
using kernels::normal_pdf;
using kernels::sigmoid;
using kernels::softplus;
using kernels::tanh;

// x within [-bound, bound], a NaN left as it is. So is the gradient there: that of the operation
// clamp is 0.
template <std::floating_point T>
TAPEHEAD_INLINE T bounded(T x, double bound) {
  return kernels::clamp(x, -bound, bound);
}
Tensor bounded(const Tensor& x, double bound) {
  const Tensor above = maximum(x, full({}, -bound, x.dtype()));
  return minimum(above, full({}, bound, x.dtype()));
}

struct Activation : Function {
  static constexpr std::int64_t grain = costly_grain;
};

struct Tanh : Activation {
  static constexpr const char* name = "tanh";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = g * (1 - y^2)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return tanh(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g * (number<T>(1) - y * y);
  }
};

struct Sigmoid : Activation {
  static constexpr const char* name = "sigmoid";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = g * y * (1 - y)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return sigmoid(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return g * (y * (number<T>(1) - y));
  }
};

struct Relu : Function {
  static constexpr const char* name = "relu";
  static constexpr Keeps keeps = Keeps::output;
  static constexpr const char* reason = "dx = 0 where y <= 0, else g";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x < T(0) ? T(0) : x;  // a NaN stays
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T y) const {
    return where(le(y, number<T>(0)), number<T>(0), g);
  }
};

// y is positive exactly where x is, unless the slope is negative.
template <Keeps kept>
struct LeakyRelu : Function {
  static constexpr const char* name = "leaky_relu";
  static constexpr Keeps keeps = kept;
  static constexpr const char* reason = kept == Keeps::output
                                            ? "dx = g where y > 0, else g * negative_slope"
                                            : "dx = g where x > 0, else g * negative_slope";
  double negative_slope = 0;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x > T(0) ? x : x * static_cast<T>(negative_slope);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x_or_y) const {
    const T sloped = g * number<T>(negative_slope);
    return where(gt(x_or_y, number<T>(0)), g, sloped);
  }
  std::vector<Graph::Attribute> attributes() const { return {{"negative_slope", negative_slope}}; }
};

// ---- gelu --------------------------------------------------------------------------------------

Tensor normal_cdf(const Tensor& x) { return erf(x * (1 / std::numbers::sqrt2)) * 0.5 + 0.5; }
Tensor normal_pdf(const Tensor& x) {
  return exp(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

struct Gelu : Activation {
  static constexpr const char* name = "gelu";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * (cdf(x) + x * pdf(x))";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x * normal_cdf(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    const T cdf = normal_cdf(x);
    return g * (x * normal_pdf(x) + cdf);
  }
  std::vector<Graph::Attribute> attributes() const { return {{"approximate", "none"}}; }
};

// (1 + tanh(u)) / 2 is sigmoid(2u), which keeps its relative accuracy in the lower tail. Here
// 2u = x * (linear + cubic * x^2).
struct GeluTanh : Activation {
  static constexpr const char* name = "gelu";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * (s + x * s * (1 - s) * du/dx), s = sigmoid(u(x))";
  static constexpr double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  static constexpr double cubic = linear * 0.044715;
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x * sigmoid(x * (x * x * number<T>(cubic) + number<T>(linear)));
  }
  // Far from 0, s is exactly 0 or 1, and the slope with it: there x is bounded, that no power of it
  // is infinite.
  static constexpr double bound = 30;
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T unbounded) const {
    const T x = bounded(unbounded, bound);
    const T xx = x * x;
    const T s = sigmoid(x * (xx * number<T>(cubic) + number<T>(linear)));
    const T rest = number<T>(1) - s;
    const T du_dx = xx * number<T>(3 * cubic) + number<T>(linear);
    return g * (s * (x * du_dx * rest + number<T>(1)));
  }
  std::vector<Graph::Attribute> attributes() const { return {{"approximate", "tanh"}}; }
};

// ---- the rest ----------------------------------------------------------------------------------

struct Silu : Activation {
  static constexpr const char* name = "silu";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * s * (1 + x * (1 - s)), s = sigmoid(x)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return x * sigmoid(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    const T s = sigmoid(x);
    return g * (s * (x * (number<T>(1) - s) + number<T>(1)));
  }
};

struct Softplus : Activation {
  static constexpr const char* name = "softplus";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * sigmoid(x)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return softplus(x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * sigmoid(x);
  }
};

struct Logsigmoid : Activation {
  static constexpr const char* name = "logsigmoid";
  static constexpr Keeps keeps = Keeps::input;
  static constexpr const char* reason = "dx = g * sigmoid(-x)";
  template <class T>
  TAPEHEAD_INLINE T value(T x) const {
    return -softplus(-x);
  }
  template <class T>
  TAPEHEAD_INLINE T pull(T g, T x) const {
    return g * sigmoid(-x);
  }
};

}  // namespace

Tensor tanh(Tensor x) { return apply(Tanh{}, std::move(x)); }
Tensor sigmoid(Tensor x) { return apply(Sigmoid{}, std::move(x)); }
Tensor relu(Tensor x) { return apply(Relu{}, std::move(x)); }

Tensor leaky_relu(Tensor x, double negative_slope) {
  if (negative_slope >= 0) return apply(LeakyRelu<Keeps::output>{{}, negative_slope}, std::move(x));
  return apply(LeakyRelu<Keeps::input>{{}, negative_slope}, std::move(x));
}

Approximate parse_approximate(std::string_view text) {
  if (text == "none") return Approximate::none;
  if (text == "tanh") return Approximate::tanh;
  throw ValueError("gelu",
                   "approximate \"" + std::string(text) + "\" must be \"none\" or \"tanh\"");
}

Tensor gelu(Tensor x, Approximate approximate) {
  return approximate == Approximate::none ? apply(Gelu{}, std::move(x))
                                          : apply(GeluTanh{}, std::move(x));
}

Tensor silu(Tensor x) { return apply(Silu{}, std::move(x)); }
Tensor softplus(Tensor x) { return apply(Softplus{}, std::move(x)); }
Tensor logsigmoid(Tensor x) { return apply(Logsigmoid{}, std::move(x)); }

}  // namespace tapehead
