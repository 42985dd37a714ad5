// The diagonal view, which einsum takes for a repeated index.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// The elements of x whose indices in dim0 and dim1 are equal: both dims go, and the diagonal, as
/// long as the shorter of them, becomes the last dim. A view. saves nothing; dx = g on the
/// diagonal, 0 elsewhere
/// IndexError: a dim out of range. ValueError: the same dim twice. ShapeError: x has fewer dims.
Tensor diagonal(const Tensor& x, std::int64_t dim0 = 0, std::int64_t dim1 = 1);

/// The gradient of diagonal: g on the diagonal of a tensor of zeros of that shape. saves nothing;
/// dg = diagonal of the gradient
/// ShapeError: g has another shape than that diagonal; else as diagonal.
Tensor diagonal_backward(const Tensor& g, const Shape& shape, std::int64_t dim0, std::int64_t dim1);

}  // namespace tapehead
