// softmax and its kin. A non-contiguous x is copied row-major into the result first; a moved-in x
// that nobody else holds is worked on in place, whatever the dim.
//
// All throw DTypeError when x is not floating, and IndexError for a dim outside [-rank, rank); a
// 0-d tensor takes 0 and -1, and counts as one element of dim.
#pragma once

#include <tapehead/core/tensor.h>

namespace tapehead {

/// What softmax makes of a row that is -inf throughout: 0/0 = NaN by IEEE, or zeros.
enum class EmptyRow { nan, zero };

/// Of softmax().
struct SoftmaxOptions {
  EmptyRow empty_row = EmptyRow::nan;  ///< what a row of -inf gives
};

/// y = exp(x - max) / sum(exp(x - max)) along dim.
/// saves y;  dx = y * (g - sum(g * y))
/// A row of -inf gives NaN, and NaN gradients, or with {.empty_row = EmptyRow::zero} zeros, and
/// zero gradients.
Tensor softmax(Tensor x, std::int64_t dim, SoftmaxOptions options = {});

/// dx = y * (g - sum(g * y)): the rule of softmax, an operation of its own so that it can be
/// differentiated again. g and y have one shape (ShapeError) and dtype. A moved-in g is worked on
/// in place. saves g, y;  dg = h * y - y * sum(h * y),  dy = h * (g - sum(g * y)) - g * sum(h * y),
/// where h is the gradient of dx
Tensor softmax_backward(Tensor g, const Tensor& y, std::int64_t dim);

/// y = x - max - log(sum(exp(x - max))) along dim; NaN for a row of -inf.
/// saves y;  dx = g - exp(y) * sum(g)
Tensor log_softmax(Tensor x, std::int64_t dim);

}  // namespace tapehead
