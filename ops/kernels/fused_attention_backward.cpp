// The backward pass of fused attention: the tiles of weights are made again from each query's
// maximum and sum.
#include <tapehead/ops/kernels/blas.h>
#include <tapehead/ops/kernels/fused_attention_head.h>
#include <tapehead/ops/kernels/math.h>

namespace tapehead::kernels::attention {
namespace {

// x = exp(x - shift) * factor.
template <class T>
TAPEHEAD_MULTIVERSION void weights_row(T* x, std::int64_t count, T shift, T factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) x[j] = exp(x[j] - shift) * factor;
}

template <class T>
TAPEHEAD_MULTIVERSION T dot_row(const T* a, const T* b, std::int64_t count) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += a[j] * b[j];
  return sum;
}

// dS = A (dA - D) in place of dA. Of a query that sees one key, D is dA, but for its rounding:
// there dS must be 0.
template <class T>
TAPEHEAD_MULTIVERSION void score_gradient_row(const T* a, T* da, std::int64_t count, T d,
                                              bool sees_one) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const T own = sees_one ? da[j] : d;
    da[j] = a[j] * (da[j] - own);
  }
}

template <class T>
struct HeadGradients {
  Rows<const T> y, dy;
  const T *row_max, *row_sum;
  Rows<T> dq, dk, dv;
  T* dbias;        // this head's (L, S), or null
  bool adds_to_k;  // an earlier head of the group wrote to dk and dv
};

// Puts the hidden pairs of a tile to 0.
template <class T>
void clear(const bool* hidden, std::int64_t rows, std::int64_t columns, T* s) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (hidden[i * tile + j]) s[i * tile + j] = T(0);
}

// Of rows i0 on, what the tiles did not write: queries see no key from `end` on.
template <class T>
void no_gradient_from(std::int64_t end, const Head<T>& head, const HeadGradients<T>& out,
                      std::int64_t i0, std::int64_t rows) {
  for (std::int64_t i = i0; i < i0 + rows; ++i) {
    if (end == 0) std::fill_n(out.dq.row(i), head.features, T(0));
    if (out.dbias) std::fill_n(out.dbias + i * head.keys + end, head.keys - end, T(0));
  }
}

// A block of queries, and what their rules need of each row.
template <class T>
struct Block {
  Block(const Head<T>& head, const HeadGradients<T>& out, std::int64_t first, std::int64_t count)
      : i0(first), rows(count), q(head.q.from(first)), dy(out.dy.from(first)) {
    for (std::int64_t i = 0; i < rows; ++i) {
      d[static_cast<std::size_t>(i)] = dot_row(dy.row(i), out.y.row(i0 + i), head.value_features);
      // The sum is 1 for one key, and for a key far ahead of the others.
      sees_one[static_cast<std::size_t>(i)] = out.row_sum[i0 + i] == T(1) && head.sees_one(i0 + i);
    }
    is_finite = all_finite(q, rows, head.features) && all_finite(dy, rows, head.value_features);
  }

  const std::int64_t i0, rows;
  const Rows<const T> q, dy;
  bool is_finite;
  std::array<T, tile> d;  // <dy, y>
  std::array<bool, tile> sees_one;
};

template <class T>
struct Tiles {
  alignas(64) std::array<T, tile * tile> a, da;  // the weights, and the gradient of the scores
  HiddenPairs hidden;
  const bool* left_out;  // the pairs to leave out of the sums, or null
};

// The tiles of a block and of the keys [j0, j0 + columns).
template <class T>
void make_tiles(const Head<T>& head, const HeadGradients<T>& out, const Block<T>& block,
                std::int64_t j0, std::int64_t columns, Tiles<T>& tiles) {
  const std::int64_t i0 = block.i0, rows = block.rows;
  T *const a = tiles.a.data(), *const da = tiles.da.data();
  const bool any_hidden = head.scores(i0, rows, j0, columns, a);
  for (std::int64_t i = 0; i < rows; ++i)
    weights_row(a + i * tile, columns, out.row_max[i0 + i], T(1) / out.row_sum[i0 + i]);
  gemm_tile<T>(false, true, rows, columns, head.value_features, T(1), block.dy.data, block.dy.step,
               head.v.row(j0), head.v.step, T(0), da, tile);
  head.drop(i0, rows, j0, columns, da);
  for (std::int64_t i = 0; i < rows; ++i)
    score_gradient_row(a + i * tile, da + i * tile, columns, block.d[static_cast<std::size_t>(i)],
                       block.sees_one[static_cast<std::size_t>(i)]);
  head.drop(i0, rows, j0, columns, a);
  // A hidden pair has 0 in both tiles, but where something is not finite, which then shows in da.
  const bool keep_out =
      any_hidden && !(block.is_finite && all_finite(head.k.from(j0), columns, head.features) &&
                      all_finite<T>({da, tile}, rows, columns));
  tiles.left_out = keep_out ? head.hidden_pairs(i0, rows, j0, columns, tiles.hidden) : nullptr;
  if (!tiles.left_out) return;
  clear(tiles.left_out, rows, columns, a);
  clear(tiles.left_out, rows, columns, da);
}

// Adds a block's parts to the gradients of the keys and values [j0, j0 + columns). The first `old`
// of these rows hold parts already; the others are written for the first time.
template <class T>
void add_to_keys(const Head<T>& head, const HeadGradients<T>& out, const Block<T>& block,
                 std::int64_t j0, std::int64_t columns, std::int64_t old, const Tiles<T>& tiles,
                 double scale) {
  const auto add = [&](std::int64_t first, std::int64_t count, T beta) {
    if (count == 0) return;
    const bool* const pairs = tiles.left_out ? tiles.left_out + first : nullptr;
    add_product<T>({tiles.a.data() + first, true, pairs}, count, block.rows, block.dy,
                   head.value_features, out.dv.from(j0 + first), T(1), beta);
    add_product<T>({tiles.da.data() + first, true, pairs}, count, block.rows, block.q,
                   head.features, out.dk.from(j0 + first), static_cast<T>(scale), beta);
  };
  add(0, old, T(1));
  add(old, columns - old, T(0));
}

template <class T>
void backward_rows(const Head<T>& head, const HeadGradients<T>& out, double scale, std::int64_t i0,
                   std::int64_t rows) {
  const Block<T> block(head, out, i0, rows);
  Tiles<T> tiles;
  const std::int64_t end = head.visible_end(i0 + rows);
  const std::int64_t end_before = i0 == 0 ? 0 : head.visible_end(i0);
  for (std::int64_t j0 = 0; j0 < end; j0 += tile) {
    const std::int64_t columns = std::min(tile, end - j0);
    make_tiles(head, out, block, j0, columns, tiles);
    // Rows of dk and dv up to end_before hold the parts of earlier queries, those from there on
    // only where an earlier head of the group wrote them.
    const std::int64_t old =
        out.adds_to_k ? columns : std::clamp<std::int64_t>(end_before - j0, 0, columns);
    add_to_keys(head, out, block, j0, columns, old, tiles, scale);
    add_product<T>({tiles.da.data(), false, tiles.left_out}, rows, columns, head.k.from(j0),
                   head.features, out.dq.from(i0), static_cast<T>(scale), j0 == 0 ? T(0) : T(1));
    if (out.dbias)
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(tiles.da.data() + i * tile, columns, out.dbias + (i0 + i) * head.keys + j0);
  }
  no_gradient_from(end, head, out, i0, rows);
}

template <class T>
void backward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
              const View& y, const View& row_max, const View& row_sum, const View& dy,
              const View& dq, const View& dk, const View& dv, const View* dbias) {
  const std::int64_t heads = q.shape[1], key_heads = k.shape[1], queries = q.shape[2];
  const std::int64_t group = key_heads == 0 ? 0 : heads / key_heads;
  // The heads of a group add to the same dk and dv: one thread has them all.
  parallel_for(q.shape[0] * key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t batch = item / key_heads, key_head = item % key_heads;
      const Rows<T> dk_rows = matrix<T>(dk, batch, key_head),
                    dv_rows = matrix<T>(dv, batch, key_head);
      std::int64_t seen = 0;  // keys that a query sees: the same for all heads of the group
      for (std::int64_t g = 0; g < group; ++g) {
        const std::int64_t h = key_head * group + g, index = batch * heads + h;
        const Head<T> head(q, k, v, terms, batch, h);
        const HeadGradients<T> out{matrix<const T>(y, batch, h),
                                   matrix<const T>(dy, batch, h),
                                   row_max.as<const T>() + index * queries,
                                   row_sum.as<const T>() + index * queries,
                                   matrix<T>(dq, batch, h),
                                   dk_rows,
                                   dv_rows,
                                   dbias ? dbias->as<T>() + index * queries * head.keys : nullptr,
                                   g > 0};
        for (std::int64_t i0 = 0; i0 < queries; i0 += tile)
          backward_rows(head, out, terms.scale, i0, std::min(tile, queries - i0));
        seen = queries == 0 ? 0 : head.visible_end(queries);
      }
      for (std::int64_t j = seen; j < k.shape[2]; ++j) {
        std::fill(dk_rows.row(j), dk_rows.row(j) + k.shape[3], T(0));
        std::fill(dv_rows.row(j), dv_rows.row(j) + v.shape[3], T(0));
      }
    }
  });
}

}  // namespace
}  // namespace tapehead::kernels::attention

namespace tapehead::kernels {

void attention_backward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                        const View& y, const View& row_max, const View& row_sum, const View& dy,
                        const View& dq, const View& dk, const View& dv, const View* dbias) {
  visit_floating(q.dtype, [&](auto zero) {
    attention::backward<decltype(zero)>(q, k, v, terms, y, row_max, row_sum, dy, dq, dk, dv, dbias);
  });
}

}  // namespace tapehead::kernels
