// Products of matrices into a given buffer, and their gradients. Internal to matmul and linear.
#pragma once

#include <tapehead/core/node.h>
#include <tapehead/core/tensor.h>

namespace tapehead {

/// The shape of a product of matrices: the leading dims broadcast, then rows of a, columns of b.
/// Both have at least two dims, and the leading ones fit.
Shape product_shape(const Shape& a, const Shape& b);

/// y = scale * a b + beta * y on the last two dims, unrecorded: a (..., m, k), b (..., k, n), y
/// (..., m, n), all of rank >= 2. The leading dims of a and b broadcast; where they have a dim and
/// y has it not, or of size 1, the product is summed over it. y is in a layout that BLAS takes.
/// With beta = 0, y is not read. `operation` names who allocates, when an operand must be copied
/// because BLAS cannot take its layout.
void multiply_into(const char* operation, const Tensor& a, const Tensor& b, double scale,
                   double beta, const Tensor& y);

/// For the rule of `node`: scale * a b, summed to the shape of input `input` as above, as the
/// gradient of that input. It is added in place to the gradient so far, if the walk gives that out.
/// Otherwise it is laid out like the input: then the views that made the input (a transpose, a
/// split into heads) give a row-major gradient back, and nobody has to copy it.
/// While a tape records, it is the operation matmul, then a sum.
Tensor product_gradient(const Node& node, std::size_t input, const Wanted& wanted, const Tensor& a,
                        const Tensor& b, double scale = 1);

}  // namespace tapehead
