// Normalisation over the last dims. x is taken row-major (copied if it is not). A row whose squares
// overflow (f32 from about 1e19 on) is normalised all the same, relative to its largest magnitude,
// and has its gradient where the deviations from the mean are finite (f32 up to about 1e38); one
// with an infinity or NaN gives NaN. Both throw DTypeError unless x is floating and weight and
// bias have its dtype, and ShapeError when normalized_shape is not how x's shape ends, or weight or
// bias has another shape, ValueError when eps is negative or not finite.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// y = xhat * weight + bias with xhat = (x - mean) * rstd, rstd = 1 / sqrt(var + eps), over the
/// last normalized_shape.rank() dims, with the biased variance, in two passes (no cancellation for
/// a large mean). weight, bias: of normalized_shape, or undefined. saves x, mean, rstd (and weight
/// for dx);  with u = g * weight: dx = rstd * (u - mean(u) - xhat * mean(u * xhat)), dweight =
/// sum(g * xhat), dbias = sum(g)
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// y = xhat * weight with xhat = x * rstd, rstd = 1 / sqrt(mean(x^2) + eps), over the last
/// normalized_shape.rank() dims. weight: of normalized_shape, or undefined.
/// saves x, rstd (and weight for dx);  with u = g * weight:
/// dx = rstd * (u - xhat * mean(u * xhat)), dweight = sum(g * xhat)
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                double eps = 1e-5);

}  // namespace tapehead
