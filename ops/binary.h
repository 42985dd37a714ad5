// Functions of two tensors, element by element, with NumPy's broadcasting (ShapeError when the
// shapes do not fit) and one dtype, f32 or f64 (DTypeError). Gradients are summed back to the
// operand's shape. By-value operands that are moved in, own their storage alone, have the result's
// shape and are not read by the rule are worked on in place.
#pragma once

#include <tapehead/core/tensor.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/pointwise.h>

namespace tapehead {

/// y = a + b.     saves nothing;                    da = g, db = g
Tensor add(Tensor a, Tensor b);
/// y = a - b.     saves nothing;                    da = g, db = -g
Tensor sub(Tensor a, Tensor b);
/// y = a * b.     saves b for da, a for db;         da = g * b, db = g * a
Tensor mul(Tensor a, Tensor b);
/// y = a / b.     saves b, and y for db;            da = g / b, db = -g * y / b
Tensor div(Tensor a, Tensor b);
/// y = max(a, b), NaN if either is.  saves a, b;    g where it won, g / 2 to each when equal
Tensor maximum(const Tensor& a, const Tensor& b);
/// y = min(a, b), NaN if either is.  saves a, b;    g where it won, g / 2 to each when equal
Tensor minimum(const Tensor& a, const Tensor& b);
/// y = a to the power b.  saves a, b (and y for db);  da = g * b * a^(b-1), 0 where b = 0 and
/// 1/a is not finite; db = g * y * log(a), 0 where a = 0 and b >= 0
Tensor pow(const Tensor& a, const Tensor& b);

/// y = a where condition else b; all three broadcast. saves condition; g goes to what was selected,
/// and 0 to the rest, even where g or the value is infinite or NaN. condition: bool (DTypeError).
///
/// A gradient does not flow around a singularity by selection alone: where(x > 0, log(x), 0) has
/// the gradient 0 * (1/0) = NaN at x = 0. Select the argument too: log(where(x > 0, x, 1)).
Tensor where(const Tensor& condition, Tensor a, Tensor b);
/// @{
/// The same with a number, as a 0-d constant, in place of one tensor.
Tensor where(const Tensor& condition, Tensor a, double b);
Tensor where(const Tensor& condition, double a, Tensor b);
/// @}

/// @{
/// The functions of those names; value / x is reciprocal(x) * value.
inline Tensor operator-(Tensor x) { return neg(std::move(x)); }
inline Tensor operator+(Tensor a, Tensor b) { return add(std::move(a), std::move(b)); }
inline Tensor operator-(Tensor a, Tensor b) { return sub(std::move(a), std::move(b)); }
inline Tensor operator*(Tensor a, Tensor b) { return mul(std::move(a), std::move(b)); }
inline Tensor operator/(Tensor a, Tensor b) { return div(std::move(a), std::move(b)); }
inline Tensor operator+(Tensor x, double value) { return add(std::move(x), value); }
inline Tensor operator+(double value, Tensor x) { return add(std::move(x), value); }
inline Tensor operator-(Tensor x, double value) { return add(std::move(x), -value); }
inline Tensor operator-(double value, Tensor x) { return add(neg(std::move(x)), value); }
inline Tensor operator*(Tensor x, double value) { return mul(std::move(x), value); }
inline Tensor operator*(double value, Tensor x) { return mul(std::move(x), value); }
inline Tensor operator/(Tensor x, double value) { return div(std::move(x), value); }
inline Tensor operator/(double value, Tensor x) { return mul(reciprocal(std::move(x)), value); }
/// @}

}  // namespace tapehead
