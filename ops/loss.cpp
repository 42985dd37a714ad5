// Losses that compare two tensors element by element.
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/kernels/math.h>
#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/reduce.h>

#include <concepts>
#include <limits>

namespace tapehead {
namespace {

// Each loss is one struct: its value, and its slopes along x and target. Slopes are written once,
// for numbers and for tensors: the fused kernel runs them on numbers; when the rule itself is being
// recorded the same lines run on tensors, as operations.

using kernels::clamp;
using kernels::sigmoid;

template <std::floating_point T>
TAPEHEAD_INLINE T mul(T x, double factor) {
  return x * static_cast<T>(factor);
}

struct SquaredError {
  static constexpr const char* name = "mse_loss";
  static constexpr const char* reason = "dx = 2 * (x - target) * g, dtarget = -dx";
  static constexpr std::initializer_list<int> target_read_for = {0, 1};
  static constexpr std::int64_t grain = cheap_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x, T target) const {
    return (x - target) * (x - target);
  }
  template <class T>
  TAPEHEAD_INLINE T x_slope(const T& x, const T& target) const {
    return mul(x - target, 2);
  }
  template <class T>
  TAPEHEAD_INLINE T target_slope(const T& x, const T& target) const {
    return mul(x - target, -2);
  }
  std::vector<Graph::Attribute> attributes() const { return {}; }
};

struct SmoothL1 {
  static constexpr const char* name = "smooth_l1_loss";
  static constexpr const char* reason = "dx = clamp((x - target) / beta, -1, 1) * g, dtarget = -dx";
  static constexpr std::initializer_list<int> target_read_for = {0, 1};
  static constexpr std::int64_t grain = cheap_grain;
  double beta = 1;
  template <class T>
  TAPEHEAD_INLINE T value(T x, T target) const {
    const T d = std::abs(x - target), b = static_cast<T>(beta);
    return d < b ? d * d / (2 * b) : d - b / 2;
  }
  template <class T>
  TAPEHEAD_INLINE T x_slope(const T& x, const T& target) const {
    return clamp(mul(x - target, 1 / beta), -1, 1);
  }
  template <class T>
  TAPEHEAD_INLINE T target_slope(const T& x, const T& target) const {
    return clamp(mul(x - target, -1 / beta), -1, 1);
  }
  std::vector<Graph::Attribute> attributes() const { return {{"beta", beta}}; }
};

struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy_with_logits";
  static constexpr const char* reason = "dx = (sigmoid(x) - target) * g, dtarget = -x * g";
  static constexpr std::initializer_list<int> target_read_for = {0};
  static constexpr std::int64_t grain = costly_grain;
  template <class T>
  TAPEHEAD_INLINE T value(T x, T target) const {
    return ((x > 0 ? x : T(0)) - x * target) + kernels::log1p_of_unit(kernels::exp(-std::abs(x)));
  }
  template <class T>
  TAPEHEAD_INLINE T x_slope(const T& x, const T& target) const {
    return sigmoid(x) - target;
  }
  template <class T>
  TAPEHEAD_INLINE T target_slope(const T& x, const T&) const {
    return -x;
  }
  std::vector<Graph::Attribute> attributes() const { return {}; }
};

// ---- the machinery ------------------------------------------------------------------------------

// g * slope(x, target), in g's buffer where that is allowed.
template <class F, class Slope>
Tensor pull(Tensor g, const Tensor& x, const Tensor& target, Slope slope) {
  Tensor result = donate_or_empty(F::name, g, g.shape(), g.dtype());
  launch([&] {
    visit_floating(g.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::ternary<T, T, T, T>(
          g.view(), x.view(), target.view(), result.view(),
          [slope](T gi, T xi, T ti) __attribute__((always_inline)) { return gi * slope(xi, ti); },
          F::grain);
    });
  });
  return result;
}

template <class F>
struct ElementwiseLossNode final : Node {
  ElementwiseLossNode() : Node(F::name) {}
  Saved x{*this, "x", {0, 1}, F::reason};
  Saved target{*this, "target", F::target_read_for, F::reason};
  F f{};

  Grads backward(Tensor g, const Wanted& wanted) override {
    // A target that nothing reads stands in for itself.
    const Tensor& t = target.kept() ? target.get() : x.get();
    Tensor dx, dtarget;
    if (Tape::recording()) {
      if (wanted[0]) dx = mul(f.x_slope(x.get(), t), g);
      if (wanted[1]) dtarget = mul(f.target_slope(x.get(), t), g);
      return {dx, dtarget};
    }
    const F loss = f;
    if (wanted[0]) {
      Tensor upstream = wanted[1] ? g : std::move(g);
      dx = pull<F>(
          std::move(upstream), x.get(), t, [loss](auto xi, auto ti) __attribute__((always_inline)) {
            return loss.x_slope(xi, ti);
          });
    }
    if (wanted[1])
      dtarget = pull<F>(  // NOLINTNEXTLINE(bugprone-use-after-move): g is moved above if not here
          std::move(g), x.get(), t, [loss](auto xi, auto ti) __attribute__((always_inline)) {
            return loss.target_slope(xi, ti);
          });
    return {dx, dtarget};
  }
  std::vector<Graph::Attribute> attributes() const override { return f.attributes(); }
};

Tensor reduced(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none: break;
    case Reduction::mean: return mean(losses);
    case Reduction::sum: return sum(losses);
  }
  return losses;
}

void check_pair(const char* operation, const Tensor& x, const Tensor& target) {
  check_floating(operation, "x", x);
  check_same_dtype(operation, x, target, "x", "target");
  if (x.shape() != target.shape())
    throw ShapeError(
        operation, "x " + describe(x) + " and target " + describe(target) + " must have one shape");
}

template <class F>
Tensor elementwise_loss(const F& f, const Tensor& x, const Tensor& target, Reduction reduction) {
  check_pair(F::name, x, target);
  Tensor losses = empty(F::name, x.shape(), x.dtype());
  launch([&] {
    visit_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, T>(
          x.view(), target.view(),
          losses.view(), [f](T xi, T ti) __attribute__((always_inline)) { return f.value(xi, ti); },
          F::grain);
    });
  });
  using NodeType = ElementwiseLossNode<F>;
  losses = record<NodeType>(std::move(losses), {&x, &target}, [&](NodeType& node) {
    node.f = f;
    node.x.save(x);
    node.target.save(target);
  });
  return reduced(losses, reduction);
}

}  // namespace

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return "none";
    case Reduction::mean: return "mean";
    case Reduction::sum: break;
  }
  return "sum";
}

Reduction parse_reduction(std::string_view text) {
  if (text == "none") return Reduction::none;
  if (text == "mean") return Reduction::mean;
  if (text == "sum") return Reduction::sum;
  throw ValueError("parse_reduction", "reduction \"" + std::string(text) +
                                          "\": must be \"none\", \"mean\" or \"sum\"");
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return elementwise_loss(SquaredError{}, x, target, reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, Reduction reduction) {
  if (!(beta >= 0))
    throw ValueError("smooth_l1_loss", "beta " + format_number(beta) + ": must not be negative");
  // Below this the slope in the round part, 1 / beta, would be no float.
  if (beta >= static_cast<double>(std::numeric_limits<float>::min()))
    return elementwise_loss(SmoothL1{beta}, x, target, reduction);
  check_pair("smooth_l1_loss", x, target);
  return reduced(abs(sub(x, target)), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        Reduction reduction) {
  return elementwise_loss(BinaryCrossEntropy{}, x, target, reduction);
}

}  // namespace tapehead
