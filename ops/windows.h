// Views of a part of a tensor. They cost nothing and save nothing; the gradient goes back into
// zeros. As for the views of views.h, values are shared, x comes by value, the dtype is any, and a
// dim may be negative (from the end); IndexError when it is out of range. ShapeError: x is 0-d.
#pragma once

#include <tapehead/core/tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tapehead {

/// `length` positions of dim from `start`. dx = zeros with g in the window
/// IndexError: the window does not lie in [0, size]. ValueError: length is negative.
Tensor narrow(Tensor x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// Python's x[start:end:step] along dim: bounds may be negative, too large or left out.
/// dx = zeros with g in the window. ValueError: step < 1.
Tensor slice(Tensor x, std::int64_t dim, std::optional<std::int64_t> start = {},
             std::optional<std::int64_t> end = {}, std::int64_t step = 1);
/// One position of dim (negative: from the end); the dim disappears. dx = zeros with g there
/// IndexError: no such position.
Tensor select(Tensor x, std::int64_t dim, std::int64_t index);
/// How many parts a number may ask for: an expanded or empty tensor has more than memory can hold.
constexpr std::int64_t max_parts = std::int64_t{1} << 20;
/// Consecutive parts of split_size along dim, as narrows; the last may be smaller. An empty dim
/// gives one empty part. ValueError: split_size < 1 (0 is allowed for an empty dim), or more than
/// max_parts of them.
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t dim = 0);
/// Consecutive parts of the given sizes, as narrows. ShapeError: the sizes do not add up to the
/// dim. ValueError: a size is negative.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes,
                          std::int64_t dim = 0);
/// Parts of size ceil(n / chunks), as narrows, so possibly fewer than asked for; an empty dim gives
/// `chunks` empty parts. ValueError: chunks < 1, or more than max_parts of them.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0);

/// The gradient of slice, and with step 1 of narrow: zeros of `shape`, with g at positions start,
/// start + step, ... of dim. Not a view. saves nothing;  dg = slice of the gradient
/// ShapeError: g does not fit there.
Tensor slice_backward(const Tensor& g, const Shape& shape, std::int64_t dim, std::int64_t start,
                      std::int64_t step = 1);

}  // namespace tapehead
