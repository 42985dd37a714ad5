// Reductions over any dims of tensors of any strides. In all of them y has the rank of x, size 1 in
// the reduced dims, and x's dtype unless said otherwise. Sums and products of float are accumulated
// in double. Results do not depend on the number of threads.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// y = sum(x) / divisor. x and y are floating, of equal or different dtype.
void sum(const View& x, const View& y, double divisor = 1);
/// y = product of x.
void prod(const View& x, const View& y);
/// y = largest (smallest) of x, NaN if one is; -inf (inf) over nothing. Floating.
void amax(const View& x, const View& y);
void amin(const View& x, const View& y);
/// y = whether any (all) of x is true. Bool.
void any(const View& x, const View& y);
void all(const View& x, const View& y);
/// y = sqrt(sum(x^2)).
void norm2(const View& x, const View& y);
/// mean = mean + sum(x - mean) / count, f64: takes back what rounding did to a mean of f64 values,
/// so that the mean of equal values is their value.
void refine_mean(const View& x, const View& mean, double count);
/// y = sum((x - mean)^2) / divisor, or its root. `mean` (f64) has y's layout.
void variance(const View& x, const View& mean, const View& y, double divisor, bool root);
/// y = y + log(sum(exp(x - y))), where y holds amax(x) at first; -inf over nothing.
void logsumexp_from_max(const View& x, const View& y);
/// count = number of x that equal y, a NaN equal to a NaN. `count` has y's layout.
void count_equal(const View& x, const View& y, const View& count);

}  // namespace tapehead::kernels
