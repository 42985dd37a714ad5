// Reading and writing by position. Positions are i64 (DTypeError) and hold 0..n-1: a negative one
// is out of range. IndexError names the first bad position and n; every position is looked at
// before anything is written.
#pragma once

#include <tapehead/core/tensor.h>

#include <optional>

namespace tapehead {

/// Rows of weight (V, d) by indices (any shape) -> indices' shape + (d).
/// saves indices;  dweight = the rows of g added up where they came from; the row padding_idx (may
/// be negative, from the end) gets none, though its values are read as any other's.
/// ShapeError: weight has not two dims. IndexError: a bad index, or padding_idx outside [-V, V).
Tensor embedding(const Tensor& weight, const Tensor& indices,
                 std::optional<std::int64_t> padding_idx = {});

// What is added at one position is added one by one in x's dtype, as PyTorch does: in float32 more
// than 2^24 ones at one place do not count.

/// The positions index of dim: y has index's size there. ShapeError: index is not 1-D, or x is 0-d.
/// saves index;  dx = zeros with g added at its positions
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with slice i of src added at position index[i] of dim. index is 1-D, x is not 0-d, and src has
/// x's shape but for dim, where it has index's size (ShapeError), and x's dtype, which is floating
/// (DTypeError). x is worked on in place when it is moved in and nobody else holds it.
/// saves index;  dx = g, dsrc = index_select(g, dim, index)
Tensor index_add(Tensor x, std::int64_t dim, const Tensor& index, const Tensor& src);

/// y[i][j] = x[index[i][j]][j] for dim 0. index has x's rank, at least 1, and, but for dim, sizes
/// up to x's (ShapeError); y has index's shape.
/// saves index;  dx = zeros with g added at its positions
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// x with src[i][j] added at [index[i][j]][j] for dim 0. index as for gather; src has index's shape
/// (ShapeError) and x's dtype, which is floating (DTypeError). x is worked on in place when it is
/// moved in and nobody else holds it.
/// saves index;  dx = g, dsrc = gather(g, dim, index)
Tensor scatter_add(Tensor x, std::int64_t dim, const Tensor& index, const Tensor& src);

}  // namespace tapehead
