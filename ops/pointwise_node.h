// How functions of one tensor are made. Internal to the sources of pointwise and activations.
//
// Each function is one struct: its value, and its pull, which turns the gradient of y into the
// gradient of x. Both are written once, for numbers and for tensors alike: the fused kernel runs
// `pull` on numbers, and when the rule itself is being recorded (create_graph) the same line runs
// on tensors, as operations, so that every order of derivative follows from the first.
//
//     struct Tanh : Function {
//       static constexpr const char* name = "tanh";
//       static constexpr Keeps keeps = Keeps::output;                  // what pull reads
//       static constexpr const char* reason = "dx = g * (1 - y^2)";
//       template <class T>
//       TAPEHEAD_INLINE T value(T x) const { return tanh(x); }
//       template <class T>
//       TAPEHEAD_INLINE T pull(T g, T y) const { return g * (number<T>(1) - y * y); }
//     };
//
// A pull that reads nothing is written for tensors alone: Tensor pull(Tensor g) const.
#pragma once

#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/kernels/math.h>
#include <tapehead/ops/kernels/pointwise.h>

#include <concepts>
#include <type_traits>
#include <vector>

namespace tapehead::elementwise {

// What the rule reads.
enum class Keeps { nothing, input, output };

// What most functions share; a struct hides the members that it has its own way.
struct Function {
  static constexpr Keeps keeps = Keeps::nothing;
  static constexpr const char* reason = "";
  static constexpr std::int64_t grain = cheap_grain;
  std::vector<Graph::Attribute> attributes() const { return {}; }
};

// ---- what formulas are made of: here for numbers, for tensors the operations so called ---------

// A number in a formula: of the scalar's own type, so that float loops stay float; a plain number
// beside a tensor.
template <class T>
TAPEHEAD_INLINE auto number(double value) {
  if constexpr (std::is_same_v<T, Tensor>) return value;
  else return static_cast<T>(value);
}

template <std::floating_point T>
TAPEHEAD_INLINE bool gt(T a, T b) {
  return a > b;
}
template <std::floating_point T>
TAPEHEAD_INLINE bool ge(T a, T b) {
  return a >= b;
}
template <std::floating_point T>
TAPEHEAD_INLINE bool le(T a, T b) {
  return a <= b;
}
template <std::floating_point T>
TAPEHEAD_INLINE T where(bool condition, T a, T b) {
  return condition ? a : b;
}

// ---- the machinery -----------------------------------------------------------------------------

// What the loops call. (Lambdas would need an attribute to be inlined for each instruction set.)
template <class F>
struct ValueOf {
  F f;
  template <class T>
  TAPEHEAD_INLINE T operator()(T x) const {
    return f.value(x);
  }
};
template <class F>
struct PullOf {
  F f;
  template <class T>
  TAPEHEAD_INLINE T operator()(T g, T saved) const {
    return f.pull(g, saved);
  }
};

// dx = pull(g, saved) in one kernel, written into g's buffer where that is allowed.
template <class F>
Tensor pull_fused(const F& f, const Tensor& g, const Tensor& saved) {
  Tensor dx = donate_or_empty(F::name, g, g.shape(), g.dtype());
  launch([&] {
    visit_floating(dx.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, T>(g.view(), saved.view(), dx.view(), PullOf<F>{f}, F::grain);
    });
  });
  return dx;
}

template <class F, Keeps keeps = F::keeps>
struct PointwiseNode final : Node {
  PointwiseNode() : Node(F::name) {}
  Saved kept{*this, keeps == Keeps::output ? "y" : "x", {0}, F::reason};
  F f{};

  Grads backward(Tensor g, const Wanted&) override {
    if (Tape::recording()) return {f.pull(g, kept.get())};
    return {pull_fused(f, g, kept.get())};
  }
  std::vector<Graph::Attribute> attributes() const override { return f.attributes(); }
};

template <class F>
struct PointwiseNode<F, Keeps::nothing> final : Node {
  PointwiseNode() : Node(F::name) {}
  F f{};

  Grads backward(Tensor g, const Wanted&) override { return {f.pull(std::move(g))}; }
  std::vector<Graph::Attribute> attributes() const override { return f.attributes(); }
};

// y = f(x), recorded. x is worked on in place when the caller gave up the only handle to its values
// and the rule does not read them. The handle is given back before y is returned: as an argument of
// the caller it would live on to the end of its statement, as a second handle to what y shows.
template <class F>
Tensor apply(const F& f, Tensor x) {
  check_floating(F::name, "x", x);
  const bool reads_x_later = F::keeps == Keeps::input && will_record(x);
  Tensor y = reads_x_later ? empty(F::name, x.shape(), x.dtype())
                           : donate_or_empty(F::name, x, x.shape(), x.dtype());
  launch([&] {
    visit_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::unary<T, T>(x.view(), y.view(), ValueOf<F>{f}, F::grain);
    });
  });
  return record<PointwiseNode<F>>(y, {&x}, [&](PointwiseNode<F>& node) {
    node.f = f;
    if constexpr (F::keeps == Keeps::input) node.kept.save(x);
    if constexpr (F::keeps == Keeps::output) node.kept.save(y);
  });
}

}  // namespace tapehead::elementwise
