// Reductions over one or more dims. An empty list of dims means all of them. keepdim leaves reduced
// dims with size 1; a 0-d tensor takes dims 0 and -1. Sums are accumulated in double, so that the
// result does not depend on the number of threads and float32 does not stop growing at 2^24.
//
// All throw IndexError for a dim outside [-rank, rank), ValueError for a dim given twice, and
// DTypeError unless x is floating (any, all: bool).
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// Sum. saves nothing;  dx = g, expanded. Over an empty dim: 0
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Mean of the n elements. saves nothing;  dx = g / n, expanded. Over an empty dim: NaN
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Largest element, NaN if there is one. saves x, y;  g shared equally by tied elements (by the
/// NaNs where y is NaN), so that dx sums to g. ShapeError over an empty dim.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Smallest element, as amax.
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// @{
/// Whether any (all) of the elements is true. Bool, no gradient. Over an empty dim: false (true)
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// @}

/// g summed over the dims in which `shape` was broadcast, so that it has that shape again: the
/// gradient of broadcasting. Recorded as a sum. ShapeError unless `shape` broadcasts to g's.
Tensor sum_to(Tensor g, const Shape& shape);

}  // namespace tapehead
