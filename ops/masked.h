// Elements kept or replaced by where they stand: masks and triangles.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// y = value where mask else x. mask (bool, else DTypeError) broadcasts to x (ShapeError) and is
/// saved unexpanded; value is converted to x's dtype, any but bf16 and f16 (DTypeError). x is
/// worked on in place when it is moved in and nobody else holds it.
/// saves mask;  dx = 0 where mask else g, even where x or g is infinite or NaN
Tensor masked_fill(Tensor x, const Tensor& mask, double value);

/// The lower triangle of the last two dims: where column - row > diagonal, y is 0, even if x is
/// infinite or NaN. Any dtype but bf16 and f16 (DTypeError); x is worked on in place when moved in
/// and nobody else holds it.
/// saves nothing;  dx = tril(g, diagonal)
/// ShapeError: fewer than two dims.
Tensor tril(Tensor x, std::int64_t diagonal = 0);
/// The upper triangle: 0 where column - row < diagonal; else as tril.
/// saves nothing;  dx = triu(g, diagonal)
Tensor triu(Tensor x, std::int64_t diagonal = 0);

}  // namespace tapehead
