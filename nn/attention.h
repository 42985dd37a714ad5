// Attention on heads: tensors (..., time, features), any dims in front.
//
// Composed of operations, so that the tape lists every step of the formula, and every order of
// derivative works. One T x T buffer is enough: the scores are masked and normalised in place, and
// the weights are saved once, read by the softmax rule and by the product with v. The same formula
// in one operation, which saves nothing of T x T, is a second path (ops/fused_attention.h).
#pragma once

#include <tapehead/nn/mask.h>

#include <optional>

namespace tapehead::nn {

/// How attention() is computed. The graph shows which path ran, as its operations.
enum class AttentionPath {
  composed,   ///< matmul, masked_fill, softmax, matmul
  fused,      ///< one fused_attention; what it does not take is a ShapeError
  automatic,  ///< fused where it takes the operands, else composed
};

/// What stands between queries, keys and values.
struct AttentionOptions {
  Mask mask = {};  ///< what is hidden
  /// Added to the scaled scores before they are masked; broadcasts to them, and may want a
  /// gradient. -infinity hides a key as the mask does. A lowest finite number hides it only next to
  /// higher scores: a query all of whose keys have it sees all of them.
  Tensor bias = {};
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(E) when not given
  double dropout = 0;  ///< of the weights, whenever it is not 0: a function knows of no mode
  AttentionPath path = AttentionPath::composed;  ///< which operations compute it
};

/// softmax(scale * q k^T + bias, where not hidden) : q (..., L, E), k (..., S, E) -> (..., L, S).
/// Rows sum to 1; the row of a query that may see nothing is 0, and no gradient flows through it.
/// Leading dims broadcast. Besides, k may have fewer heads (dim -3) than q: with H and K of them,
/// query head h reads key head h / (H / K) (grouped queries). Keys are not repeated in memory, and
/// their gradient has K heads. Dropout does not touch these weights, and they are always composed.
/// ShapeError: fewer than two dims, E differs, H is no multiple of K, or the mask or the bias does
/// not fit. DTypeError: not one floating dtype.
Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options = {});

/// attention_weights(q, k) v, with dropout on the weights: v (..., S, Ev) -> (..., L, Ev).
/// A query that may see nothing gives 0. Hidden keys and values count for nothing as long as they
/// are finite; the composition follows IEEE, so that 0 times an infinite value is NaN.
/// saves q, k, v, the mask (as small as broadcasting allows) and the weights, once; the fused path
/// saves what fused_attention does, which also keeps NaN and infinity in hidden keys out.
/// ShapeError: also when k and v differ in S, or when the fused path is asked for and does not take
/// the operands. ValueError: dropout outside [0, 1].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

/// The second half of attention: dropout(weights) v; v may have fewer heads than the weights, as k
/// fewer than q. Dropout works in place on weights that are moved in and that nobody else holds.
/// Errors as of matmul and dropout.
Tensor weighted_values(Tensor weights, const Tensor& v, double dropout = 0);

/// (..., T, heads * E) -> (..., heads, T, E), head h from the h-th part of the last dim. A view
/// where the strides allow it. ShapeError: fewer than two dims, or features that heads do not
/// divide.
Tensor split_heads(const Tensor& x, std::int64_t heads);
/// (..., heads, T, E) -> (..., T, heads * E), the inverse of split_heads. One copy, since the heads
/// of a token lie apart; a reshape without the transpose would mix tokens. ShapeError: fewer than
/// three dims.
Tensor merge_heads(const Tensor& x);

}  // namespace tapehead::nn
