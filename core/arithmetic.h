// The little arithmetic that the tape itself needs: constants, copies, and summing gradients where
// a value was used more than once. Everything else is an operation and lives in ops/. Internal.
#pragma once

#include <tapehead/core/copy.h>
#include <tapehead/core/tensor.h>

namespace tapehead {

/// A row-major tensor with every element `value` (converted to dtype).
Tensor filled(const char* operation, const Shape& shape, DType dtype, double value,
              Category category = Category::transient);

/// A row-major copy of the values of `x`, as a constant.
Tensor copied(const char* operation, const Tensor& x);

/// to += from, element by element; the rules of copy_values, and one floating dtype.
void add_into(const View& to, const View& from);

/// x *= factor, for floating x without two elements in one place.
void scale_in_place(const View& x, double factor);

/// Whether elements of x share a place (a dim above 1 has stride 0): nobody may write to it.
bool is_expanded(const Tensor& x);

/// True when no other handle, view or tape can see the tensor's values, so that its owner may write
/// to it: sole handle, sole user of its storage, no leaf, not expanded.
bool is_exclusive(const Tensor& x);

/// a + b of one shape and dtype as a recorded operation: how fan-in adds up under create_graph.
Tensor accumulate(const Tensor& a, const Tensor& b);

}  // namespace tapehead
