// Reading and adding by position, and triangles. Any strides; every position has been checked.
#pragma once

#include <tapehead/core/view.h>

#include <cstdint>
#include <optional>

namespace tapehead::kernels {

/// The first entry of `index` (i64) outside [0, size).
std::optional<std::int64_t> first_outside(const View& index, std::int64_t size);

/// y[p] = x[p with p[dim] replaced by index[p]]. x has y's dtype and rank; index (i64) has y's
/// shape, or is expanded to it.
void gather(const View& y, const View& x, std::int64_t dim, const View& index);

/// y[p with p[dim] replaced by index[p]] += x[p]. One floating dtype and rank; index (i64) has x's
/// shape, or is expanded to it. y has no two elements in one place. Whatever the number of threads,
/// what comes to one place is added in the row-major order of x.
void scatter_add(const View& y, std::int64_t dim, const View& index, const View& x);

/// y = x where column - row <= diagonal (lower) or >= diagonal (upper) in the last two dims, else
/// 0. One shape and dtype; y may be x.
void triangle(const View& y, const View& x, std::int64_t diagonal, bool lower);

}  // namespace tapehead::kernels
