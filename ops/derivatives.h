// Derivatives of a whole function of one tensor, as values. Each call opens a tape of its own, so
// these are for answers, not for building larger graphs: the results are constants. An output that
// does not depend on x has derivative zero. DTypeError unless x is floating, or a direction has the
// dtype that it must; ShapeError where it has another shape. Errors of f pass through.
#pragma once

#include <tapehead/core/tensor.h>

#include <functional>

namespace tapehead {

/// A function of one tensor, written with recorded operations.
using TensorFunction = std::function<Tensor(const Tensor&)>;

/// J with J[i..., j...] = d f(x)[i...] / d x[j...]: the shape of f(x), then the shape of x. One
/// reverse walk for each element of f(x).
Tensor jacobian(const TensorFunction& f, const Tensor& x);

/// The Jacobian applied to a direction: sum over j of J[i..., j...] v[j...], in the shape of f(x).
/// v has the shape and dtype of x. Two reverse walks (the derivative of u -> J^T u, which is linear
/// in u, is J), so every operation of f needs a rule that can be differentiated.
Tensor jvp(const TensorFunction& f, const Tensor& x, const Tensor& v);

/// The gradient of the sum of f(x) * u: J^T u, in the shape of x. u has the shape of f(x).
Tensor vjp(const TensorFunction& f, const Tensor& x, const Tensor& u);

/// The Hessian of a function with one element applied to a direction, in the shape of x; v has the
/// shape and dtype of x. ShapeError unless f(x) has one element.
Tensor hvp(const TensorFunction& f, const Tensor& x, const Tensor& v);

}  // namespace tapehead
