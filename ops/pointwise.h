// Functions of one tensor, element by element. y has the shape and dtype of x (f32 or f64, else
// DTypeError); NaN in, NaN out; arguments outside a function's domain give the IEEE result, in the
// gradients as well. Every x is taken by value: a moved-in tensor that nobody else holds is worked
// on in place.
#pragma once

#include <tapehead/core/tensor.h>

#include <optional>

namespace tapehead {

/// y = -x.                          saves nothing;  dx = -g
Tensor neg(Tensor x);
/// y = |x|.                         saves x;        dx = g * sign(x), 0 at x = 0
Tensor abs(Tensor x);
/// y = x + value.                   saves nothing;  dx = g
Tensor add(Tensor x, double value);
/// y = x * value.                   saves nothing;  dx = g * value
Tensor mul(Tensor x, double value);
/// y = x / value, correctly rounded. saves nothing; dx = g / value
Tensor div(Tensor x, double value);

/// y = exp(x).                      saves y;        dx = g * y
Tensor exp(Tensor x);
/// y = log(x), the natural one.     saves x;        dx = g / x
Tensor log(Tensor x);
/// y = sqrt(x).                     saves y;        dx = g / (2 * y), infinite at x = 0
Tensor sqrt(Tensor x);
/// y = 1 / sqrt(x).                 saves y;        dx = -g * y^3 / 2
Tensor rsqrt(Tensor x);
/// y = x^2.                         saves x;        dx = g * 2 * x
Tensor square(Tensor x);
/// y = 1 / x.                       saves y;        dx = -g * y^2
Tensor reciprocal(Tensor x);
/// y = sin(x).                      saves x;        dx = g * cos(x)
Tensor sin(Tensor x);
/// y = cos(x).                      saves x;        dx = -g * sin(x)
Tensor cos(Tensor x);
/// y = erf(x).                      saves x;        dx = g * exp(-x^2) * 2 / sqrt(pi)
Tensor erf(Tensor x);

/// y = x to the power exponent.     saves x;        dx = g * exponent * x^(exponent - 1)
/// With exponent 0, y is 1 and dx is 0 everywhere, and nothing is saved. With exponent 1, x is
/// saved for the sake of higher derivatives alone: dx is recorded as depending on x, so they are 0,
/// not an error.
Tensor pow(Tensor x, double exponent);
/// y = min(max(x, min), max), so max where min > max. A bound that is not given does not bind.
/// saves x;  dx = g where min <= x <= max, else 0
/// ValueError: neither bound is given.
Tensor clamp(Tensor x, std::optional<double> min, std::optional<double> max);

}  // namespace tapehead
