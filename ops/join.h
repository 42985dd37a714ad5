// Copies, and joining of tensors. Results are row-major with a storage of their own (but for
// contiguous(), which may return x); any layout, and any dtype, but that only clone and contiguous
// take bf16 and f16 (else DTypeError). IndexError when a dim is out of range.
#pragma once

#include <tapehead/core/tensor.h>

#include <vector>

namespace tapehead {

/// A row-major copy with a storage of its own. saves nothing; dx = g
Tensor clone(const Tensor& x);
/// x itself when it is row-major, else a row-major copy. saves nothing; dx = g
Tensor contiguous(Tensor x);
/// Joins along an existing dim; the other sizes are equal (ShapeError), one dtype (DTypeError), and
/// the list is not empty (ValueError). saves nothing; each input gets its part of g, as a view
Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Joins along a new dim at position dim, in [-(rank+1), rank]. Shapes and dtypes are equal, else
/// ShapeError, DTypeError. saves nothing; each input gets its part of g, as a view
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);
/// Tiles: repeats.rank() >= x.rank() (ShapeError); more entries add dims in front. saves nothing;
/// dx = g summed over the tiles. ValueError: a negative entry.
Tensor repeat(const Tensor& x, const Dims& repeats);
/// Reverses the order along dims (may be empty). saves nothing; dx = flip(g, dims)
/// ValueError: a dim is given twice.
Tensor flip(const Tensor& x, const Dims& dims);

}  // namespace tapehead
