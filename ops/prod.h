// Products along a dim. IndexError for a dim outside [-rank, rank), DTypeError unless x is
// floating.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// Product over one dim. saves x;  dx = g * product of the other elements, never a quotient, so it
/// is right with zeros in the row. Over an empty dim: 1
Tensor prod(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// For each element the product of the others along dim: what prod passes back. It is the product
/// of those before times the product of those behind, so an infinity or NaN, or an overflow, on
/// either side goes by IEEE (0 * inf = NaN). saves x;  dx_j = sum over i != j of g_i * the product
/// of those but i and j, which takes n times the memory of x, n the size of dim.
Tensor products_of_others(const Tensor& x, std::int64_t dim);
}  // namespace tapehead
