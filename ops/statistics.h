// Reductions that are more than one pass: variance, norms, logsumexp. Dims, keepdim and errors as
// in reduce.h.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// sum((x - mean)^2) / (n - correction), in two passes; NaN (0/0) for n = correction = 1.
/// saves x;  dx = g * 2 / (n - correction) * (x - mean)
Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false);
/// Root of var. saves x, y;  dx = g / ((n - correction) * y) * (x - mean), 0 where y = 0
/// (After `using namespace tapehead` write tapehead::std.)
Tensor std(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false);
/// log(sum(exp(x))) without overflow. saves x, y;  dx = g * e / sum(e), e = exp(x - y). A row of
/// -inf, or an empty one, gives -inf; -inf among finite entries counts for nothing.
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
/// sum(|x|^p)^(1/p); largest |x| for p = infinity. p > 0, else ValueError.
/// p = 2 (in double, so that float32 squares do not overflow; the second derivative squares in x's
/// dtype) saves x, y;  dx = g * x / y, 0 where y = 0. Other p are composed of abs, pow and sum
/// (amax); where the norm is 0 so is the gradient, and for p < 2 where x is.
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);

}  // namespace tapehead
