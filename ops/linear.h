// The affine map of a layer.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// y = x @ weight^T + bias; x (..., in), weight (out, in), bias (out) or undefined -> (..., out).
/// One product over all leading dims; the bias is added to it in place.
/// saves weight for dx, x for dweight;  dx = g weight, dweight = g^T x and dbias = sum of g, both
/// over all leading dims
/// ShapeError: x is 0-d, weight is not 2-D, the inner sizes differ, bias is not (out). DTypeError:
/// not floating, or not of one dtype.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace tapehead
