#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/diagonal.h>

#include <algorithm>

namespace tapehead {
namespace {

struct TwoDims {
  std::int64_t dim0 = 0, dim1 = 1;
};

TwoDims two_dims(const char* operation, const Shape& shape, std::int64_t dim0, std::int64_t dim1) {
  if (shape.rank() < 2)
    throw ShapeError(operation, "shape " + to_string(shape) + ": two dims are needed");
  const Dims dims = normalize_dims(operation, {dim0, dim1}, shape);
  return {dims[0], dims[1]};
}

Tensor diagonal_of(const Tensor& x, TwoDims dims) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.push_back(std::min(shape[dims.dim0], shape[dims.dim1]));
  strides.push_back(strides[dims.dim0] + strides[dims.dim1]);
  for (const std::int64_t dim : {std::max(dims.dim0, dims.dim1), std::min(dims.dim0, dims.dim1)}) {
    shape.erase(dim);
    strides.erase(dim);
  }
  return alias(x, shape, strides, x.offset());
}

struct DiagonalNode final : Node {
  DiagonalNode() : Node("diagonal") {}
  bool runs_in_any_dtype() const override { return true; }
  TwoDims dims;
  Grads backward(Tensor g, const Wanted&) override {
    return {diagonal_backward(g, input_shape(0), dims.dim0, dims.dim1)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim0", dims.dim0}, {"dim1", dims.dim1}};
  }
};

struct DiagonalBackwardNode final : Node {
  DiagonalBackwardNode() : Node("diagonal_backward") {}
  bool runs_in_any_dtype() const override { return true; }
  TwoDims dims;
  Grads backward(Tensor g, const Wanted&) override { return {diagonal(g, dims.dim0, dims.dim1)}; }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim0", dims.dim0}, {"dim1", dims.dim1}};
  }
};

}  // namespace

Tensor diagonal(const Tensor& x, std::int64_t dim0, std::int64_t dim1) {
  check_defined("diagonal", "x", x);
  const TwoDims dims = two_dims("diagonal", x.shape(), dim0, dim1);
  return record<DiagonalNode>(diagonal_of(x, dims), {&x},
                              [&](DiagonalNode& node) { node.dims = dims; });
}

Tensor diagonal_backward(const Tensor& g, const Shape& shape, std::int64_t dim0,
                         std::int64_t dim1) {
  check_defined("diagonal_backward", "g", g);
  const TwoDims dims = two_dims("diagonal_backward", shape, dim0, dim1);
  Tensor y = filled("diagonal_backward", shape, g.dtype(), 0);
  const Tensor target = diagonal_of(y, dims);
  if (target.shape() != g.shape())
    throw ShapeError("diagonal_backward",
                     "g " + describe(g) + " is not the diagonal of " + to_string(shape));
  launch([&] { copy_values(target.any_view(), g.any_view()); });
  return record<DiagonalBackwardNode>(y, {&g},
                                      [&](DiagonalBackwardNode& node) { node.dims = dims; });
}

}  // namespace tapehead
