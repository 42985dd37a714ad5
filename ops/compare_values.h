// Whole tensors compared on the spot, with a bool as the answer: for tests and checks. Reads
// values, so a StateError in a dry run.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// Same dtype, shape and values; a NaN equals nothing, and -0 equals 0.
bool equal(const Tensor& a, const Tensor& b);
/// abs(a - b) <= atol + rtol * abs(b) everywhere, in double, whatever the dtypes; infinities equal
/// their own kind, and NaNs each other if equal_nan. ShapeError unless the shapes are equal.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);

}  // namespace tapehead
