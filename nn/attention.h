// Attention on heads: tensors (..., time, features), any dims in front.
//
// Composed of operations, so that the tape lists every step of the formula, and every order of
// derivative works. One T x T buffer is enough: the scores are masked and normalised in place, and
// the weights are saved once, read by the softmax rule and by the product with v.
#pragma once

#include <tapehead/nn/mask.h>

#include <optional>

namespace tapehead::nn {

struct AttentionOptions {
  Mask mask = {};
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(E) when not given
  double dropout = 0;  ///< of the weights, whenever it is not 0: a function knows of no mode
};

/// softmax(scale * q k^T where not hidden) : q (..., L, E), k (..., S, E) -> (..., L, S).
/// Rows sum to 1; the row of a query that may see nothing is 0, and no gradient flows through it.
/// Leading dims broadcast. Dropout does not touch these weights.
/// ShapeError: fewer than two dims, E differs, or the mask does not fit. DTypeError: not floating.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// attention_weights(q, k) v, with dropout on the weights: v (..., S, Ev) -> (..., L, Ev).
/// A query that may see nothing gives 0. Hidden keys and values count for nothing as long as they
/// are finite; the composition follows IEEE, so that 0 times an infinite value is NaN.
/// saves q, k, v, the mask (as small as broadcasting allows) and the weights, once.
/// ShapeError: also when k and v differ in S. ValueError: dropout outside [0, 1].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

/// The second half of attention: dropout(weights) v. Dropout works in place on weights that are
/// moved in and that nobody else holds.
Tensor weighted_values(Tensor weights, const Tensor& v, double dropout = 0);

/// (..., T, heads * E) -> (..., heads, T, E), head h from the h-th part of the last dim. A view
/// where the strides allow it.
Tensor split_heads(const Tensor& x, std::int64_t heads);
/// (..., heads, T, E) -> (..., T, heads * E), the inverse of split_heads. One copy, since the heads
/// of a token lie apart; a reshape without the transpose would mix tokens.
Tensor merge_heads(const Tensor& x);

}  // namespace tapehead::nn
