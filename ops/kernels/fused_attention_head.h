// One head of attention, tile by tile: what the two passes of fused_attention.h share. A tile is a
// part of the scores of a head, or of what is made of them: at most `tile` by `tile`, row-major,
// with `tile` elements from row to row.
#pragma once

#include <tapehead/ops/kernels/fused_attention.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace tapehead::kernels::attention {

/// Tiles of this many queries and keys: OpenBLAS's kernels for small matrices are at their best
/// there, and the two tiles of the backward pass fit in the second-level cache (and on the stack).
inline constexpr std::int64_t tile = 64;

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

/// One matrix of a four-dim operand: rows with unit stride inside.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t step = 0;

  T* row(std::int64_t i) const { return data + i * step; }
  Rows from(std::int64_t i) const { return {row(i), step}; }
};

/// A single row may have any stride; BLAS wants one that could hold a row.
template <class T>
Rows<T> matrix(const View& x, std::int64_t batch, std::int64_t head) {
  const std::int64_t step = std::max({x.strides[2], x.shape[3], std::int64_t{1}});
  return {x.as<T>() + batch * x.strides[0] + head * x.strides[1], step};
}

/// An operand of the scores (`hidden` or `bias`), read by strides.
template <class T>
struct Grid {
  const T* data = nullptr;
  std::int64_t row_step = 0, column_step = 0;

  const T& at(std::int64_t i, std::int64_t j) const { return data[i * row_step + j * column_step]; }
};

template <class T>
bool all_finite(Rows<const T> x, std::int64_t rows, std::int64_t columns);

/// Which pairs of a tile are hidden.
using HiddenPairs = std::array<bool, tile * tile>;

/// The operands of one head, and what its queries see.
template <class T>
class Head {
 public:
  Head(const View& q_view, const View& k_view, const View& v_view, const AttentionTerms& terms,
       std::int64_t batch, std::int64_t head);

  /// One past the last key that queries before `end` may see, the causal triangle considered.
  std::int64_t visible_end(std::int64_t end) const {
    return terms_.causal_offset ? std::min(keys, end + *terms_.causal_offset) : keys;
  }

  /// Scores of a tile, scaled, biased, -infinity where hidden. Returns whether any key of the tile
  /// is hidden from any of its queries.
  bool scores(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns,
              T* s) const;

  /// Whether key j is hidden from query i. Its score does not tell: that of a visible key may be
  /// -infinity too.
  bool hides(std::int64_t i, std::int64_t j) const;

  /// Fills `pairs`; returns its elements.
  const bool* hidden_pairs(std::int64_t i0, std::int64_t rows, std::int64_t j0,
                           std::int64_t columns, HiddenPairs& pairs) const;

  /// Whether query i sees exactly one key.
  bool sees_one(std::int64_t i) const;

  /// Whether all values that query i sees are finite.
  bool sees_finite_values(std::int64_t i) const;

  /// Drops entries of a tile of weights (or of their gradient) and scales the others, as dropout of
  /// the whole (B, H, L, S) tensor would.
  void drop(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns, T* s) const;

  const std::int64_t queries, keys, features, value_features;
  Rows<const T> q, k, v;

 private:
  const AttentionTerms& terms_;
  Grid<bool> hidden_;
  Grid<T> bias_;
  std::int64_t index_;  // of this head among all (batch, head)
};

/// A tile of weights (or of their gradient) as a factor of a product.
template <class T>
struct Weights {
  const T* data;
  bool transposed;
  /// The pairs to leave out of the sums, laid out as data; null where their weights of 0 do that,
  /// for the other factor is finite.
  const bool* hidden;

  std::int64_t index(std::int64_t i, std::int64_t j) const {
    return transposed ? j * tile + i : i * tile + j;
  }
};

/// c = alpha w x + beta c, with w (rows x inner) and x (inner x columns).
template <class T>
void add_product(const Weights<T>& w, std::int64_t rows, std::int64_t inner, Rows<const T> x,
                 std::int64_t columns, Rows<T> c, T alpha, T beta);

}  // namespace tapehead::kernels::attention
