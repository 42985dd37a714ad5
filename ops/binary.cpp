#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/reduce.h>

#include <cmath>

namespace tapehead {
namespace {

Shape broadcast(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, "a", a);
  check_same_dtype(operation, a, b);
  return broadcast_shapes(operation, a.shape(), b.shape());
}

// An operand that the result may overwrite if the caller gave it up: null when the rule reads it.
const Tensor* unless_read(const Tensor& operand, bool read_by_rule) {
  return read_by_rule ? nullptr : &operand;
}

// A buffer for the result: that of the first operand that can be had, else a fresh one.
Tensor result_buffer(const char* operation, const Shape& shape, DType dtype,
                     std::initializer_list<const Tensor*> candidates) {
  for (const Tensor* candidate : candidates) {
    if (!candidate) continue;
    if (Tensor donated = donate(*candidate, shape, dtype); donated.defined()) return donated;
  }
  return empty(operation, shape, dtype);
}

struct Sum {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Difference {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    return a - b;
  }
};
struct Product {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    return a * b;
  }
};
struct Quotient {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    return a / b;
  }
};
struct Power {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    return std::pow(a, b);
  }
};
template <bool largest>
struct Extremum {
  template <class T>
  TAPEHEAD_INLINE T operator()(T a, T b) const {
    if constexpr (largest) return kernels::larger(b, a);
    else return kernels::smaller(b, a);
  }
};
struct Select {
  template <class T>
  TAPEHEAD_INLINE T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

// y = f(a, b), broadcast.
template <class F>
void compute(const Tensor& a, const Tensor& b, const Tensor& y, F f,
             std::int64_t grain = cheap_grain) {
  launch([&] {
    visit_floating(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, T>(a.view(), b.view(), y.view(), f, grain);
    });
  });
}

// ---- sums, products ----------------------------------------------------------------------------

struct AddNode final : Node {
  AddNode() : Node("add") {}
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[0]) da = sum_to(g, input_shape(0));
    if (wanted[1]) db = sum_to(std::move(g), input_shape(1));
    return {std::move(da), std::move(db)};
  }
};

struct SubNode final : Node {
  SubNode() : Node("sub") {}
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[0]) da = sum_to(g, input_shape(0));
    if (wanted[1]) db = neg(sum_to(std::move(g), input_shape(1)));
    return {std::move(da), std::move(db)};
  }
};

struct MulNode final : Node {
  MulNode() : Node("mul") {}
  Saved a{*this, "a", {1}, "db = g * a"};
  Saved b{*this, "b", {0}, "da = g * b"};
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[0]) da = sum_to(mul(g, b.get()), input_shape(0));
    if (wanted[1]) db = sum_to(mul(std::move(g), a.get()), input_shape(1));
    return {std::move(da), std::move(db)};
  }
};

struct DivNode final : Node {
  DivNode() : Node("div") {}
  Saved b{*this, "b", {0, 1}, "da = g / b, db = -g * y / b"};
  Saved y{*this, "y", {1}, "db = -g * y / b"};
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    // Not (g / b) * y, which da could share: under a second derivative g may be as large as 1 / b,
    // and g / b infinite where the product is not.
    if (wanted[1]) {
      const Tensor slope = div(y.get(), b.get());
      db = neg(sum_to(mul(g, slope), input_shape(1)));
    }
    if (wanted[0]) da = sum_to(div(std::move(g), b.get()), input_shape(0));
    return {std::move(da), std::move(db)};
  }
};

// ---- maximum, minimum --------------------------------------------------------------------------

template <bool largest>
struct ExtremumNode final : Node {
  static constexpr const char* name = largest ? "maximum" : "minimum";
  ExtremumNode() : Node(name) {}
  Saved a{*this, "a", {0, 1}, "g where it won, g / 2 where a = b"};
  Saved b{*this, "b", {0, 1}, "g where it won, g / 2 where a = b"};

  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    const Tensor half = mul(g, 0.5);
    const Tensor share = where(eq(a.get(), b.get()), half, std::move(g));
    if (wanted[0]) da = sum_to(where(beats(b.get(), a.get()), 0.0, share), input_shape(0));
    if (wanted[1]) db = sum_to(where(beats(a.get(), b.get()), 0.0, share), input_shape(1));
    return {std::move(da), std::move(db)};
  }

 private:
  static Tensor beats(const Tensor& x, const Tensor& y) { return largest ? gt(x, y) : lt(x, y); }
};

template <bool largest>
Tensor extremum(const Tensor& a, const Tensor& b) {
  using XNode = ExtremumNode<largest>;
  const Shape shape = broadcast(XNode::name, a, b);
  Tensor y = empty(XNode::name, shape, a.dtype());
  compute(a, b, y, Extremum<largest>{});
  return record<XNode>(y, {&a, &b}, [&](XNode& node) {
    node.a.save(a);
    node.b.save(b);
  });
}

// ---- power -------------------------------------------------------------------------------------

// The gradients are 0 by convention where they would be 0 * inf. A selection alone would not keep
// the next order from going through the infinity, so there the base is replaced by 1 first.
struct PowNode final : Node {
  PowNode() : Node("pow") {}
  Saved a{*this, "a", {0, 1}, "da = g * b * a^(b - 1), db = g * y * log(a)"};
  Saved b{*this, "b", {0, 1}, "da = g * b * a^(b - 1), db = 0 where a = 0 and b >= 0"};
  Saved y{*this, "y", {1}, "db = g * y * log(a)"};

  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[0]) da = sum_to(base_gradient(g), input_shape(0));
    if (wanted[1]) db = sum_to(exponent_gradient(g), input_shape(1));
    return {std::move(da), std::move(db)};
  }

 private:
  Tensor base_gradient(const Tensor& g) const {
    const Tensor has_inverse = isfinite(reciprocal(a.get().detach()));
    const Tensor regular = logical_or(ne(b.get(), 0.0), has_inverse);
    const Tensor base = where(regular, a.get(), 1.0);
    const Tensor slope = pow(base, b.get() - 1.0) * b.get();
    return where(regular, g * slope, 0.0);
  }
  Tensor exponent_gradient(const Tensor& g) const {
    // Not "b < 0": a NaN is regular.
    const Tensor at_zero = eq(a.get(), 0.0), rising = ge(b.get(), 0.0);
    const Tensor regular = logical_not(logical_and(at_zero, rising));
    const Tensor base = where(regular, a.get(), 1.0);
    const Tensor slope = log(base) * y.get();
    return where(regular, g * slope, 0.0);
  }
};

// ---- where -------------------------------------------------------------------------------------

struct WhereNode final : Node {
  WhereNode() : Node("where") {}
  Saved condition{*this, "condition", {1, 2}, "da = g where condition else 0, db = the rest"};
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[1]) da = sum_to(where(condition.get(), g, 0.0), input_shape(1));
    if (wanted[2]) db = sum_to(where(condition.get(), 0.0, std::move(g)), input_shape(2));
    return {Tensor(), std::move(da), std::move(db)};
  }
};

Shape broadcast_three(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape values = broadcast_shapes("where", a.shape(), b.shape());
  return broadcast_shapes("where", condition.shape(), values, "condition", "a or b");
}

}  // namespace

Tensor add(Tensor a, Tensor b) {
  const GiveBack give_back(a, b);
  const Shape shape = broadcast("add", a, b);
  Tensor y = result_buffer("add", shape, a.dtype(), {&a, &b});
  compute(a, b, y, Sum{});
  return record<AddNode>(y, {&a, &b}, [](AddNode&) {});
}

Tensor sub(Tensor a, Tensor b) {
  const GiveBack give_back(a, b);
  const Shape shape = broadcast("sub", a, b);
  Tensor y = result_buffer("sub", shape, a.dtype(), {&a, &b});
  compute(a, b, y, Difference{});
  return record<SubNode>(y, {&a, &b}, [](SubNode&) {});
}

Tensor mul(Tensor a, Tensor b) {
  const GiveBack give_back(a, b);
  const Shape shape = broadcast("mul", a, b);
  Tensor y = result_buffer("mul", shape, a.dtype(),
                           {unless_read(a, will_record(b)), unless_read(b, will_record(a))});
  compute(a, b, y, Product{});
  return record<MulNode>(y, {&a, &b}, [&](MulNode& node) {
    node.a.save(a);
    node.b.save(b);
  });
}

Tensor div(Tensor a, Tensor b) {
  const GiveBack give_back(a, b);
  const Shape shape = broadcast("div", a, b);
  Tensor y = result_buffer("div", shape, a.dtype(),
                           {&a, unless_read(b, will_record(a) || will_record(b))});
  compute(a, b, y, Quotient{});
  return record<DivNode>(y, {&a, &b}, [&](DivNode& node) {
    node.b.save(b);
    node.y.save(y);
  });
}

Tensor maximum(const Tensor& a, const Tensor& b) { return extremum<true>(a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return extremum<false>(a, b); }

Tensor pow(const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast("pow", a, b);
  Tensor y = empty("pow", shape, a.dtype());
  compute(a, b, y, Power{}, costly_grain);
  return record<PowNode>(y, {&a, &b}, [&](PowNode& node) {
    node.a.save(a);
    node.b.save(b);
    node.y.save(y);
  });
}

Tensor where(const Tensor& condition, Tensor a, Tensor b) {
  const GiveBack give_back(a, b);
  check_dtype("where", "condition", condition, DType::boolean);
  check_floating("where", "a", a);
  check_same_dtype("where", a, b);
  Tensor y = result_buffer("where", broadcast_three(condition, a, b), a.dtype(), {&a, &b});
  launch([&] {
    visit_floating(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::ternary<bool, T, T, T>(condition.view(), a.view(), b.view(), y.view(), Select{});
    });
  });
  return record<WhereNode>(y, {&condition, &a, &b},
                           [&](WhereNode& node) { node.condition.save(condition); });
}

Tensor where(const Tensor& condition, Tensor a, double b) {
  check_floating("where", "a", a);
  Tensor number = filled("where", {}, a.dtype(), b);
  return where(condition, std::move(a), std::move(number));
}
Tensor where(const Tensor& condition, double a, Tensor b) {
  check_floating("where", "b", b);
  Tensor number = filled("where", {}, b.dtype(), a);
  return where(condition, std::move(number), std::move(b));
}

}  // namespace tapehead
