// Attention in one operation with memory linear in the number of positions: tiles, online softmax,
// and weights made again in the backward pass (ops/kernels/fused_attention.h).
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/tensor.h>

#include <optional>

namespace tapehead {

/// What stands between the products.
struct FusedAttentionOptions {
  double scale = 1;  ///< of the scores
  /// Query i sees keys 0..i + causal_offset. Not negative, else ValueError.
  std::optional<std::int64_t> causal_offset = {};
  /// bool, broadcasts to (B, H, L, S): keys that are not seen. Saved unexpanded.
  Tensor hidden = {};
  /// Added to the scaled scores; broadcasts to (B, H, L, S); its gradient costs the bytes of that
  /// shape while the backward pass runs. Hide with -infinity or `hidden`: a lowest finite number
  /// hides only next to higher scores, and a query all of whose keys have it sees all of them.
  Tensor bias = {};
  double dropout = 0;              ///< of the weights
  Generator* generator = nullptr;  ///< for dropout; this thread's default one when null
};

/// y = softmax(scale q k^T + bias, hidden keys left out) v: q (B, H, L, E), k (B, K, S, E),
/// v (B, K, S, F) -> (B, H, L, F), or all without B, or without B and heads. H is a multiple of K,
/// and query head h reads key head h / (H / K) (grouped queries).
///
/// A query that sees no key gives 0 and passes no gradient on. A key that a query does not see
/// cannot reach its output or its gradient, nor the query (or the gradient of its output) the key's
/// gradient, even with an infinite or NaN value; -infinity in bias hides a key too. What is seen
/// follows IEEE arithmetic, whatever else is hidden: a NaN shows even under a weight that is 0 by
/// underflow or dropout, as 0 * NaN is NaN.
///
/// saves q, k, v, y, row_max, row_sum, hidden, bias: nothing of the shape (L, S) but what the
/// caller gave. With A the weights made again, D_i = <g_i, y_i> and dS = A * (g v^T - D):
///   dv = A^T g,  dq = scale dS k,  dk = scale dS^T q,  dbias = dS
/// (Dao et al., "FlashAttention", 2022). Where y is not finite, neither is D, though dropout may
/// have dropped the value that made it so. While the rule itself is recorded it is the composition
/// of these formulas, with weights of the shape (L, S); then what is not finite in a key or value
/// that some queries see, or in a query that sees some keys, reaches the gradients of the others
/// too.
///
/// ShapeError: ranks not equal or outside 2..4, batches not equal, E, S or the numbers of heads do
/// not fit, hidden or bias does not broadcast to (B, H, L, S), or with dropout that is too large to
/// count. DTypeError: not one floating dtype,
/// or hidden not bool. ValueError: dropout outside [0, 1], a negative offset.
Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const FusedAttentionOptions& options = {});

}  // namespace tapehead
