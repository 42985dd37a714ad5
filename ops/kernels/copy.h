// Copying and filling, for any element type and any strides.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// Writes the values of `from` into `to`: one shape and dtype, any strides (negative ones too).
/// `to` has no two elements in one place and does not overlap `from`.
void copy(const View& to, const View& from);

/// Writes `value`, converted to the dtype, to every element.
void fill(const View& to, double value);

}  // namespace tapehead::kernels
