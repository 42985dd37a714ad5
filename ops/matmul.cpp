#include <tapehead/core/count.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/matrix_product.h>
#include <tapehead/ops/views.h>

#include <algorithm>

namespace tapehead {
namespace {

// Both operands have at least two dims: 1-D ones have become matrices by then.
struct MatmulNode final : Node {
  MatmulNode() : Node("matmul") {}
  Saved a{*this, "a", {1}, "db = scale * a^T g"};
  Saved b{*this, "b", {0}, "da = scale * g b^T"};
  double scale = 1;

  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor da, db;
    if (wanted[0]) {
      const Tensor b_t = transpose(b.get(), -2, -1);
      da = product_gradient(*this, 0, wanted, g, b_t, scale);
    }
    if (wanted[1]) {
      const Tensor a_t = transpose(a.get(), -2, -1);
      db = product_gradient(*this, 1, wanted, a_t, g, scale);
    }
    return {std::move(da), std::move(db)};
  }

  std::vector<Graph::Attribute> attributes() const override {
    if (scale == 1) return {};
    return {{"scale", scale}};
  }

  std::int64_t flops() const override {
    const Shape a_shape = input_shape(0);
    return count_product(2, numel(product_shape(a_shape, input_shape(1))), a_shape.back());
  }
};

std::string operands(const Tensor& a, const Tensor& b) {
  return "a " + describe(a) + " and b " + describe(b);
}

void check_dtypes(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, "a", a);
  check_floating(operation, "b", b);
  check_same_dtype(operation, a, b);
}

void check_rank(const char* operation, const Tensor& a, const Tensor& b, int rank) {
  if (a.rank() != rank || b.rank() != rank)
    throw ShapeError(operation, operands(a, b) + ": both must be " + std::to_string(rank) + "-D");
}

// The sizes that the product sums over: the last dim of a, the last but one of b (its only one, if
// it is 1-D).
void check_inner_sizes(const char* operation, const Tensor& a, const Tensor& b) {
  const std::int64_t inner = a.shape().back();
  const std::int64_t b_inner = b.rank() == 1 ? b.shape()[0] : b.shape()[b.rank() - 2];
  if (inner == b_inner) return;
  std::string text = operands(a, b) + ": inner sizes " + std::to_string(inner) + " and " +
                     std::to_string(b_inner) + " differ";
  if (b.rank() >= 2 && b.shape().back() == inner) text += "; b would fit transposed";
  throw ShapeError(operation, text);
}

void check_leading_dims(const char* operation, const Tensor& a, const Tensor& b) {
  for (int i = 3; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t a_size = a.shape()[a.rank() - i], b_size = b.shape()[b.rank() - i];
    if (a_size != b_size && a_size != 1 && b_size != 1)
      throw ShapeError(operation, operands(a, b) + ": leading dims do not broadcast, sizes " +
                                      std::to_string(a_size) + " and " + std::to_string(b_size) +
                                      " meet at dim " + std::to_string(-i));
  }
}

Tensor multiply_matrices(const Tensor& a, const Tensor& b, double scale) {
  Tensor y = empty("matmul", product_shape(a.shape(), b.shape()), a.dtype());
  multiply_into("matmul", a, b, scale, 0, y);
  return record<MatmulNode>(y, {&a, &b}, [&](MatmulNode& node) {
    node.scale = scale;
    node.a.save(a);
    node.b.save(b);
  });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  check_dtypes("matmul", a, b);
  if (a.rank() == 0 || b.rank() == 0)
    throw ShapeError("matmul", operands(a, b) + ": both need at least one dim");
  check_inner_sizes("matmul", a, b);
  check_leading_dims("matmul", a, b);
  const Tensor left = a.rank() == 1 ? unsqueeze(a, 0) : a;
  const Tensor right = b.rank() == 1 ? unsqueeze(b, 1) : b;
  // BLAS takes a factor of 0 for leave to compute nothing, and would hide a NaN.
  const bool by_zero = options.scale == 0;
  Tensor y = multiply_matrices(left, right, by_zero ? 1 : options.scale);
  if (by_zero) y = mul(std::move(y), 0);
  if (b.rank() == 1) y = squeeze(y, -1);
  if (a.rank() == 1) y = squeeze(y, b.rank() == 1 ? -1 : -2);
  return y;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_dtypes("bmm", a, b);
  check_rank("bmm", a, b, 3);
  if (a.shape()[0] != b.shape()[0])
    throw ShapeError("bmm", operands(a, b) + ": batch sizes differ");
  check_inner_sizes("bmm", a, b);
  return matmul(a, b);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  check_dtypes("dot", a, b);
  check_rank("dot", a, b, 1);
  check_inner_sizes("dot", a, b);
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check_dtypes("outer", a, b);
  check_rank("outer", a, b, 1);
  const Tensor column = unsqueeze(a, 1);
  const Tensor row = unsqueeze(b, 0);
  return matmul(column, row);
}

}  // namespace tapehead
