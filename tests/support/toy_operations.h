// The operations of the core's own tests. The core knows no operation by name, so its tests bring
// three, written as a user of the library writes one. Sums come from the core's accumulate(a, b).
#pragma once

#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/core/tape.h>

#include <vector>

namespace toy {

using namespace tapehead;

inline Tensor leaf(const std::vector<double>& values, const Shape& shape) {
  return parameter(from_vector(values, shape));
}
inline Tensor leaf(double value) { return leaf({value}, {}); }
inline Tensor constant(double value) { return from_vector<double>({value}, {}); }

Tensor product(const Tensor& a, const Tensor& b);
Tensor scaled(const Tensor& x, double factor);
Tensor total(const Tensor& x);
Tensor spread(const Tensor& x, const Shape& shape);

struct ProductNode final : Node {
  ProductNode() : Node("product") {}
  Saved b{*this, "b", {0}, "da = g * b"};
  Saved a{*this, "a", {1}, "db = g * a"};
  Grads backward(Tensor g, const Wanted& wanted) override {
    const Tensor da = wanted[0] ? product(g, b.get()) : Tensor();
    const Tensor db = wanted[1] ? product(g, a.get()) : Tensor();
    return {da, db};
  }
};

/// y = a * b, element by element; one shape, f64.
inline Tensor product(const Tensor& a, const Tensor& b) {
  check_dtype("product", "a", a, DType::f64);
  check_dtype("product", "b", b, DType::f64);
  if (a.shape() != b.shape())
    throw ShapeError("product", "a " + describe(a) + " and b " + describe(b) + " must be equal");
  Tensor y = empty("product", a.shape(), DType::f64);
  launch([&] {
    const std::vector<double> av = a.to_vector(), bv = b.to_vector();
    double* data = y.view().as<double>();
    for (std::size_t i = 0; i < av.size(); ++i) data[i] = av[i] * bv[i];
  });
  return record<ProductNode>(y, {&a, &b}, [&](ProductNode& node) {
    node.a.save(a);
    node.b.save(b);
  });
}

struct ScaledNode final : Node {
  ScaledNode() : Node("scaled") {}
  double factor = 1;
  Grads backward(Tensor g, const Wanted&) override { return {scaled(g, factor)}; }
  std::vector<Graph::Attribute> attributes() const override { return {{"factor", factor}}; }
};

/// y = x * factor. Saves nothing.
inline Tensor scaled(const Tensor& x, double factor) {
  Tensor y = copied("scaled", x);
  launch([&] { scale_in_place(y.view(), factor); });
  return record<ScaledNode>(y, {&x}, [&](ScaledNode& node) { node.factor = factor; });
}

struct TotalNode final : Node {
  TotalNode() : Node("total") {}
  Grads backward(Tensor g, const Wanted&) override { return {spread(g, input_shape(0))}; }
};

/// The sum of all elements, 0-d. Saves nothing; its gradient is one number spread with stride 0.
inline Tensor total(const Tensor& x) {
  Tensor y = empty("total", {}, DType::f64);
  launch([&] {
    double sum = 0;
    for (const double value : x.to_vector()) sum += value;
    *y.view().as<double>() = sum;
  });
  return record<TotalNode>(y, {&x}, [](TotalNode&) {});
}

struct SpreadNode final : Node {
  SpreadNode() : Node("spread") {}
  Grads backward(Tensor g, const Wanted&) override { return {total(g)}; }
};

/// A 0-d tensor at every place of `shape`, as a view.
inline Tensor spread(const Tensor& x, const Shape& shape) {
  return record<SpreadNode>(alias(x, shape, Strides(shape.rank(), 0), x.offset()), {&x},
                            [](SpreadNode&) {});
}

}  // namespace toy
