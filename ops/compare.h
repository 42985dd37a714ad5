// Questions about elements: the answers are bool tensors, and no gradient flows.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// @{
/// Comparisons of two tensors of one dtype, any but bf16 and f16 (else DTypeError), that broadcast
/// (else ShapeError).
/// With a NaN they are false, except ne.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
/// @}
/// @{
/// The same against a number: rounded to a's dtype where that is floating; i64 and bool are
/// compared as doubles.
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);
/// @}

/// @{
/// Of bool tensors (else DTypeError) that broadcast.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
/// @}

/// Neither infinite nor NaN. x: f32 or f64.
Tensor isfinite(const Tensor& x);
/// NaN. x: f32 or f64.
Tensor isnan(const Tensor& x);

}  // namespace tapehead
