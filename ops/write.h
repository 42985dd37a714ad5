// Writing to tensors. Values that other handles, views and saved tensors show change with them: the
// storage's version grows, so that a backward rule that saved them is a StateError rather than
// wrong.
//
// StateError when a tape is recording on this thread and x takes part in gradients (a leaf, or
// computed from one): write before the tape opens, or under Tape::Pause. ValueError when two
// elements of x share one place, as in an expanded tensor: clone() it first.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// x = value, converted to x's dtype.
void fill_(const Tensor& x, double value);
/// x = src, broadcast to x's shape (ShapeError) and converted to x's dtype. They may overlap: src
/// is read before x is written. StateError when a gradient would have to flow from src.
void copy_(const Tensor& x, const Tensor& src);

}  // namespace tapehead
