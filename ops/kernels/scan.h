// Kernels along one dim in which each element depends on those before it. x and y have one shape
// and floating dtype, any strides, and do not overlap.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// y[i] = x[0] + ... + x[i], or with `reverse` x[i] + ... + x[n-1]; accumulated in double.
void cumsum(const View& x, const View& y, std::int64_t dim, bool reverse);
/// y[i] = product of all x[j] with j != i.
void products_of_others(const View& x, const View& y, std::int64_t dim);

}  // namespace tapehead::kernels
