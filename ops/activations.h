// The nonlinear functions between the layers of a network, element by element. What pointwise.h
// says of shapes, dtypes, NaN and work in place holds here too.
#pragma once

#include <tapehead/core/tensor.h>

#include <string_view>

namespace tapehead {

/// y = tanh(x).                     saves y;  dx = g * (1 - y^2)
Tensor tanh(Tensor x);
/// y = 1 / (1 + exp(-x)).           saves y;  dx = g * y * (1 - y)
Tensor sigmoid(Tensor x);
/// y = max(x, 0).                   saves y;  dx = 0 where y <= 0, else g
Tensor relu(Tensor x);
/// y = x where x > 0, else negative_slope * x.
/// saves y (x when the slope is negative);  dx = g where x > 0, else g * negative_slope
Tensor leaky_relu(Tensor x, double negative_slope = 0.01);

/// How gelu computes the normal distribution function.
enum class Approximate {
  none,  ///< (1 + erf(x / sqrt(2))) / 2
  tanh,  ///< (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2
};
/// "none" or "tanh"; ValueError otherwise.
Approximate parse_approximate(std::string_view text);

/// y = x * cdf(x), cdf the normal distribution function (Hendrycks and Gimpel, "Gaussian error
/// linear units", 2016).
/// saves x;  dx = g * (cdf(x) + x * cdf'(x))
Tensor gelu(Tensor x, Approximate approximate = Approximate::none);
/// y = x * sigmoid(x).              saves x;  with s = sigmoid(x): dx = g * s * (1 + x * (1 - s))
Tensor silu(Tensor x);
/// y = log(1 + exp(x)), without overflow.   saves x;  dx = g * sigmoid(x)
Tensor softplus(Tensor x);
/// y = log(sigmoid(x)), without overflow.   saves x;  dx = g * sigmoid(-x)
Tensor logsigmoid(Tensor x);

}  // namespace tapehead
