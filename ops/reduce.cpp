#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>

namespace tapehead {
namespace {

using detail::ReducedDims;
using detail::ReduceNode;
using detail::view_as;

// ---- sum and mean -------------------------------------------------------------------------------

struct SumNode final : ReduceNode {
  SumNode() : ReduceNode("sum") {}
  Grads backward(Tensor g, const Wanted&) override { return {spread(g)}; }
};

struct MeanNode final : ReduceNode {
  MeanNode() : ReduceNode("mean") {}
  Grads backward(Tensor g, const Wanted&) override {
    return {spread(mul(std::move(g), 1.0 / static_cast<double>(count())))};
  }
};

template <class NodeType>
Tensor sum_over(const char* operation, const Tensor& x, const ReducedDims& dims,
                std::int64_t divisor) {
  Tensor y = empty(operation, dims.result, x.dtype());
  launch([&] { kernels::sum(x.view(), view_as(y, dims.kept), static_cast<double>(divisor)); });
  return record<NodeType>(std::move(y), {&x}, [&](NodeType& node) { node.set_dims(dims); });
}

// ---- amax and amin ------------------------------------------------------------------------------

Tensor spread_to_ties(const Tensor& g, const Tensor& x, const Tensor& y);

// How ties share does not change with x (but at isolated points), so g is the only input.
struct SpreadToTiesNode final : Node {
  SpreadToTiesNode() : Node("spread_to_ties") {}
  Saved x{*this, "x", {0}, "dg = sum(g / count where x = y)"};
  Saved y{*this, "y", {0}, "dg = sum(g / count where x = y)"};

  Grads backward(Tensor g, const Wanted&) override {
    const Tensor one = filled("spread_to_ties", y.get().shape(), g.dtype(), 1);
    const Tensor shares = spread_to_ties(one, x.get(), y.get());
    return {sum_to(mul(std::move(g), shares), y.get().shape())};
  }
};

// g, divided equally among the elements of x that equal y, and 0 to the others: selected, so that
// an infinite g does not make NaN of them. g and y have size 1 in the reduced dims.
Tensor spread_to_ties(const Tensor& g, const Tensor& x, const Tensor& y) {
  Tensor share = empty("spread_to_ties", y.shape(), x.dtype());
  Tensor dx = empty("spread_to_ties", x.shape(), x.dtype());
  launch([&] {
    kernels::count_equal(x.view(), y.view(), share.view());
    visit_floating(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, T>(
          g.view(), share.view(), share.view(),
          [](T gi, T n) __attribute__((always_inline)) { return gi / n; });
      kernels::ternary<T, T, T, T>(
          x.view(), y.view(), share.view(), dx.view(),
          [](T xi, T yi, T si) __attribute__((always_inline)) {
            return ((xi == yi) | ((xi != xi) & (yi != yi))) ? si : T(0);
          });
    });
  });
  return record<SpreadToTiesNode>(std::move(dx), {&g}, [&](SpreadToTiesNode& node) {
    node.x.save(x);
    node.y.save(y);
  });
}

template <bool largest>
struct ExtremeNode final : ReduceNode {
  ExtremeNode() : ReduceNode(largest ? "amax" : "amin") {}
  Saved x{*this, "x", {0}, "dx = g / count where x = y"};
  Saved y{*this, "y", {0}, "dx = g / count where x = y"};

  Grads backward(Tensor g, const Wanted&) override {
    // y is compared, not differentiated.
    const Tensor extreme = with_dims(y.get().detach());
    return {spread_to_ties(with_dims(g), x.get().detach(), extreme)};
  }
};

template <bool largest>
Tensor extreme(const Tensor& x, const Dims& over, bool keepdim) {
  const char* operation = largest ? "amax" : "amin";
  check_floating(operation, "x", x);
  const ReducedDims dims(operation, x, over, keepdim);
  dims.check_not_empty(operation, x);
  Tensor y = empty(operation, dims.result, x.dtype());
  launch([&] { (largest ? kernels::amax : kernels::amin)(x.view(), view_as(y, dims.kept)); });
  using NodeType = ExtremeNode<largest>;
  return record<NodeType>(y, {&x}, [&](NodeType& node) {
    node.set_dims(dims);
    node.x.save(x);
    node.y.save(y);
  });
}

// ---- any and all --------------------------------------------------------------------------------

Tensor reduce_bool(const char* operation, void (*kernel)(const View&, const View&), const Tensor& x,
                   const Dims& over, bool keepdim) {
  check_dtype(operation, "x", x, DType::boolean);
  const ReducedDims dims(operation, x, over, keepdim);
  Tensor y = empty(operation, dims.result, DType::boolean);
  launch([&] { kernel(x.view(), view_as(y, dims.kept)); });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  check_floating("sum", "x", x);
  return sum_over<SumNode>("sum", x, ReducedDims("sum", x, dims, keepdim), 1);
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  check_floating("mean", "x", x);
  const ReducedDims reduced("mean", x, dims, keepdim);
  return sum_over<MeanNode>("mean", x, reduced, reduced.count);
}

Tensor amax(const Tensor& x, const Dims& dims, bool keepdim) {
  return extreme<true>(x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim) {
  return extreme<false>(x, dims, keepdim);
}

Tensor any(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce_bool("any", kernels::any, x, dims, keepdim);
}
Tensor all(const Tensor& x, const Dims& dims, bool keepdim) {
  return reduce_bool("all", kernels::all, x, dims, keepdim);
}

Tensor sum_to(Tensor g, const Shape& shape) {
  check_floating("sum_to", "g", g);
  if (g.shape() == shape) return g;
  if (!broadcasts_to(shape, g.shape()))
    throw ShapeError(
        "sum_to", "shape " + to_string(shape) + " does not broadcast to that of g " + describe(g));
  const int added = g.rank() - shape.rank();
  Dims over;
  for (int i = 0; i < g.rank(); ++i)
    if (i < added || shape[i - added] != g.shape()[i]) over.push_back(i);
  if (over.empty()) return g;
  ReducedDims dims("sum", g, over, true);
  dims.result = shape;
  return sum_over<SumNode>("sum", g, dims, 1);
}

}  // namespace tapehead
