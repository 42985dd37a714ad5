// softmax and its kin along one dim. All tensors of a call are row-major, of one shape and floating
// dtype, and each may be the same buffer as any other. Any dim is fast: along an inner dim rows are
// taken one after the other, along an outer one neighbouring columns side by side.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// y = exp(x - max) / sum(exp(x - max)); where all of x is -inf: NaN, or 0 when zero_empty.
void softmax(const View& x, const View& y, std::int64_t dim, bool zero_empty);
/// dx = y * (g - sum(g * y)).
void softmax_backward(const View& g, const View& y, const View& dx, std::int64_t dim);
/// y = x - max - log(sum(exp(x - max))); NaN where all of x is -inf.
void log_softmax(const View& x, const View& y, std::int64_t dim);
/// dx = g - exp(y) * sum(g).
void log_softmax_backward(const View& g, const View& y, const View& dx, std::int64_t dim);

}  // namespace tapehead::kernels
