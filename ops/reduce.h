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
/// Product over one dim. saves x;  dx = g * product of the other elements, never a quotient, so it
/// is right with zeros in the row. Over an empty dim: 1
Tensor prod(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// For each element the product of the others along dim: what prod passes back. It is the product
/// of those before times the product of those behind, so an infinity or NaN, or an overflow, on
/// either side goes by IEEE (0 * inf = NaN). saves x;  dx_j = sum over i != j of g_i * the product
/// of those but i and j, which takes n times the memory of x, n the size of dim.
Tensor products_of_others(const Tensor& x, std::int64_t dim);
/// Largest element, NaN if there is one. saves x, y;  g shared equally by tied elements (by the
/// NaNs where y is NaN), so that dx sums to g. ShapeError over an empty dim.
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// Smallest element, as amax.
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum((x - mean)^2) / (n - correction), in two passes; NaN (0/0) for n = correction = 1.
/// saves x;  dx = g * 2 / (n - correction) * (x - mean)
Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false);
/// Root of var. saves x, y;  dx = g / ((n - correction) * y) * (x - mean), 0 where y = 0
/// (After `using namespace tapehead` write tapehead::std.)
Tensor std(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false);
/// log(sum(exp(x))) without overflow. saves x, y;  dx = g * e / sum(e), e = exp(x - y). A row of
/// -inf, or an empty one, gives -inf; -inf among finite entries counts for nothing.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum(|x|^p)^(1/p); largest |x| for p = infinity. p > 0, else ValueError.
/// p = 2 (in double, so that float32 squares do not overflow; the second derivative squares in x's
/// dtype) saves x, y;  dx = g * x / y, 0 where y = 0. Other p are composed of abs, pow and sum
/// (amax); where the norm is 0 so is the gradient, and for p < 2 where x is.
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);

/// @{
/// Whether any (all) of the elements is true. Bool, no gradient. Over an empty dim: false (true)
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// @}

/// g summed over the dims in which `shape` was broadcast, so that it has that shape again: the
/// gradient of broadcasting. Recorded as a sum. ShapeError unless `shape` broadcasts to g's.
Tensor sum_to(Tensor g, const Shape& shape);

}  // namespace tapehead
