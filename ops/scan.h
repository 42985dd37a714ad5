// Running sums.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// y[i] = x[0] + ... + x[i] along dim, accumulated in double.
/// saves nothing;  dx[i] = g[i] + ... + g[n-1]
/// DTypeError: x is not floating. IndexError: dim outside [-rank, rank).
Tensor cumsum(const Tensor& x, std::int64_t dim);

}  // namespace tapehead
