// Where the extreme values are. Indices are i64 and have no gradient; values are gathered, so their
// gradient goes to the elements that were chosen. NaN counts as the extreme value of argmax,
// argmin, max and min; of equal values the first is chosen.
//
// All throw DTypeError when x is not floating, IndexError for a dim outside [-rank, rank), and
// ShapeError over an empty dim.
#pragma once

#include <tapehead/core/tensor.h>

#include <optional>

namespace tapehead {

/// Position of the largest element along dim; without dim, its position in x flattened row-major.
/// With keepdim reduced dims stay, as size 1.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// Position of the smallest element, as argmax.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {}, bool keepdim = false);

/// What was found, and where.
struct ValuesAndIndices {
  Tensor values;   ///< gathered from x, recorded
  Tensor indices;  ///< i64
};

/// The largest element along dim and its position. dx = g at that position (amax shares between
/// ties instead).
ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The smallest element along dim and its position.
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);

/// The k largest (or smallest) elements along dim, best first, and their positions; size k in dim.
/// NaN counts as larger than everything. dx = g at those positions. ValueError: k is negative or
/// larger than the dim.
ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1, bool largest = true);

}  // namespace tapehead
