// Positions of extreme values along one dim. NaN counts as larger than everything, so it is found
// first; of equal values the one with the smaller index comes first.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

/// index = position of the largest (smallest) x along dim. `index` (i64) has x's shape with size 1
/// in dim; dim is not empty. x is floating, any strides. A NaN wins here too when `largest` is
/// false.
void argmax(const View& x, const View& index, std::int64_t dim, bool largest);

/// index = the positions of the k largest (smallest) x along dim, best first. `index` (i64) has x's
/// shape with size k in dim, and stride 1 along it. With `largest` false NaN counts as largest all
/// the same, and comes last.
void topk(const View& x, const View& index, std::int64_t dim, bool largest);

}  // namespace tapehead::kernels
