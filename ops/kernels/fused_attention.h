// Attention in tiles: softmax(scale q k^T + bias, hidden keys left out) v without ever holding the
// L x S matrix of weights. The forward pass keeps a running maximum and sum for each query (online
// softmax; Milakov and Gimelshein 2018, Dao et al. 2022); the backward pass makes each tile of
// weights again from them, and uses sum_j dA_ij A_ij = <dy_i, y_i>. They are kept apart: in the
// logarithm max + log(sum), a large maximum, such as a bias of -1e9, would round the sum away.
//
// Four dims throughout, with any strides but 1 in the last dim of q, k, v, y and their gradients:
// q (B, H, L, E), k (B, K, S, E), v (B, K, S, F), y (B, H, L, F). H is a multiple of K: query head
// h reads key and value head h / (H / K).
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/view.h>

#include <optional>

namespace tapehead::kernels {

/// Dropout of the weights: those whose word is above last_dropped are multiplied by scale, the
/// others become 0, as kernels::dropout does with a row-major (B, H, L, S) tensor.
struct AttentionDropout {
  RandomState random;
  std::uint32_t last_dropped = 0;
  double scale = 1;
};

struct AttentionTerms {
  double scale = 1;
  std::optional<std::int64_t> causal_offset;  ///< query i sees keys 0..i + offset; not negative
  const View* hidden = nullptr;  ///< bool, (B, H, L, S) by strides of 0: true keys are not seen
  const View* bias = nullptr;    ///< (B, H, L, S) by strides of 0: added to the scaled scores
  std::optional<AttentionDropout> dropout;
};

/// Writes y, and (B, H, L) row-major: each query's largest score (0 for one that sees no key) and
/// its sum of exp(score - largest), +infinity for a query that sees no key; that query's y is 0. A
/// key that a query does not see cannot reach its output, not even with an infinite value.
void attention_forward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                       const View& y, const View& row_max, const View& row_sum);

/// Writes dq, dk and dv from dy, and dbias (B, H, L, S) row-major unless it is null.
void attention_backward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                        const View& y, const View& row_max, const View& row_sum, const View& dy,
                        const View& dq, const View& dk, const View& dv, const View* dbias);

}  // namespace tapehead::kernels
