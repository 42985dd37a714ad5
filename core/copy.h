// Copying and filling, for any dtypes and any strides: what everything that moves elements without
// computing on them calls. Internal.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead {

/// Writes the values of `from` into `to`, converted to its dtype: equal shapes, any strides
/// (negative ones too). `to` has no two elements in one place and does not overlap `from`. The
/// caller bumps the version where it must.
void copy_values(const View& to, const View& from);

/// Writes `value`, converted to the dtype, to every element of `to`.
void fill_values(const View& to, double value);

}  // namespace tapehead
