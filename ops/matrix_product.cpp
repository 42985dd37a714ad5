#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/kernels/gemm.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/matrix_product.h>
#include <tapehead/ops/reduce.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace tapehead {
namespace {

bool blas_takes(const Tensor& x) { return kernels::is_blas_layout(x.shape(), x.strides()); }

// x, or a copy that BLAS can take; leading dims that repeat (stride 0) stay of size 1 in the copy.
// Decided by sizes and strides alone, so that a dry run allocates the same.
Tensor for_blas(const char* operation, const Tensor& x) {
  if (blas_takes(x)) return x;
  Shape once = x.shape();
  for (int i = 0; i < x.rank() - 2; ++i)
    if (x.strides()[i] == 0) once[i] = std::min<std::int64_t>(once[i], 1);
  return copied(operation, alias(x, once, x.strides(), x.offset()));
}

// Strides without gaps that order the dims as `strides` do. None when dims overlap (expanded).
std::optional<Strides> dense_like(const Shape& shape, const Strides& strides) {
  Dims order(shape.rank(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t i, std::int64_t j) { return strides[i] > strides[j]; });
  Strides dense(shape.rank(), 1);
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const std::int64_t dim = order[i];
    if (strides[dim] == 0 && shape[dim] > 1) return std::nullopt;
    dense[dim] = step;
    step *= std::max<std::int64_t>(shape[dim], 1);
  }
  return dense;
}

// An uninitialised tensor laid out like the input where BLAS can write to that, else row-major.
Tensor empty_like_input(const Node& node, std::size_t input) {
  const Shape shape = node.input_shape(input);
  const Tensor x = empty(node.operation(), shape, node.input_dtype(input));
  const std::optional<Strides> dense = dense_like(shape, node.input_strides(input));
  if (!dense || !kernels::is_blas_layout(shape, *dense)) return x;
  return alias(x, shape, *dense, 0);
}

}  // namespace

Shape product_shape(const Shape& a, const Shape& b) {
  Shape shape = a.rank() >= b.rank() ? a : b;
  for (int i = 3; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t a_size = a[a.rank() - i], b_size = b[b.rank() - i];
    shape[shape.rank() - i] = a_size == 1 ? b_size : a_size;
  }
  shape[shape.rank() - 2] = a[a.rank() - 2];
  shape[shape.rank() - 1] = b.back();
  return shape;
}

void multiply_into(const char* operation, const Tensor& a, const Tensor& b, double scale,
                   double beta, const Tensor& y) {
  const Tensor left = for_blas(operation, a);
  const Tensor right = for_blas(operation, b);
  launch([&] {
    // Seen as if y had all dims of the product: where it does not move, the kernel sums.
    View sum = y.view();
    sum.shape = product_shape(a.shape(), b.shape());
    sum.strides = expanded_strides(y.shape(), y.strides(), sum.shape);
    kernels::gemm(scale, left.view(), right.view(), beta, sum);
  });
}

Tensor product_gradient(const Node& node, std::size_t input, const Wanted& wanted, const Tensor& a,
                        const Tensor& b, double scale) {
  if (Tape::recording()) {
    Tensor product = matmul(a, b, {.scale = scale});
    return sum_to(std::move(product), node.input_shape(input));
  }
  Tensor partial = wanted.take_partial(input);
  if (partial.defined() && blas_takes(partial)) {
    multiply_into(node.operation(), a, b, scale, 1, partial);
    return partial;
  }
  Tensor gradient = empty_like_input(node, input);
  multiply_into(node.operation(), a, b, scale, 0, gradient);
  if (partial.defined()) launch([&] { add_into(gradient.view(), partial.view()); });
  return gradient;
}

}  // namespace tapehead
