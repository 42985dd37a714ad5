// Views: other sizes and strides on the same storage. They cost nothing and save nothing; the
// gradient goes back through the opposite view. Values are shared, so writing to one (fill_, copy_)
// shows in the other. They take x by value: the view of a temporary is the only handle to it. Any
// dtype. A dim may be negative (from the end), and a 0-d tensor takes the dims 0 and -1 where that
// has a meaning; IndexError when a dim is out of range.
#pragma once

#include <tapehead/core/tensor.h>

#include <cstdint>
#include <optional>

namespace tapehead {

/// The elements of x in row-major order under another shape; one entry may be -1. A view when the
/// strides allow it, else a copy (recorded as such: the attribute "copied" of the node).
/// dx = reshape(g, x's shape)
/// ShapeError: the counts differ, two -1, a -1 that does not divide or is not determined (beside a
/// size of 0). ValueError: another negative size.
Tensor reshape(Tensor x, const Shape& shape);
/// Merges dims start_dim..end_dim (both included); a 0-d tensor becomes shape (1). Copies where
/// reshape does. dx = reshape(g, x's shape)
/// ShapeError: end_dim stands before start_dim.
Tensor flatten(Tensor x, std::int64_t start_dim = 0, std::int64_t end_dim = -1);
/// Drops dim if its size is 1; without dim, all dims of size 1. dx = reshape(g, x's shape)
Tensor squeeze(Tensor x, std::optional<std::int64_t> dim = {});
/// Adds a dim of size 1 before position dim, in [-(rank+1), rank]. dx = reshape(g, x's shape)
Tensor unsqueeze(Tensor x, std::int64_t dim);

/// Swaps two dims. dx = transpose(g, dim0, dim1)
Tensor transpose(Tensor x, std::int64_t dim0, std::int64_t dim1);
/// Orders the dims as given: dim i of the result is dim dims[i] of x. dx = permute(g, inverse)
/// ShapeError: as many dims as x has must be given. ValueError: one is given twice.
Tensor permute(Tensor x, const Dims& dims);
/// Repeats dims of size 1 without copying (stride 0); -1 keeps a size; new dims stand in front.
/// dx = g summed over the repeated dims
/// ShapeError: fewer dims than x has, or a size other than 1 would change.
Tensor expand(Tensor x, const Shape& shape);

}  // namespace tapehead
