#include <tapehead/ops/kernels/blas.h>
#include <tapehead/ops/kernels/fused_attention.h>
#include <tapehead/ops/kernels/math.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tapehead::kernels {
namespace {

// Tiles of this many queries and keys: OpenBLAS's kernels for small matrices are at their best
// there, and the two tiles of the backward pass fit in the second-level cache (and on the stack).
constexpr std::int64_t tile = 64;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

// One matrix of a four-dim operand: rows with unit stride inside.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t step = 0;

  T* row(std::int64_t i) const { return data + i * step; }
};

// A single row may have any stride; BLAS wants one that could hold a row.
template <class T>
Rows<T> matrix(const View& x, std::int64_t batch, std::int64_t head) {
  const std::int64_t step = std::max({x.strides[2], x.shape[3], std::int64_t{1}});
  return {x.as<T>() + batch * x.strides[0] + head * x.strides[1], step};
}

// An element of `hidden` or `bias`, which are read by strides.
template <class T>
struct Grid {
  const T* data = nullptr;
  std::int64_t row_step = 0, column_step = 0;

  const T& at(std::int64_t i, std::int64_t j) const { return data[i * row_step + j * column_step]; }
};

template <class T>
Grid<T> grid(const View* x, std::int64_t batch, std::int64_t head) {
  if (!x) return {};
  return {x->as<const T>() + batch * x->strides[0] + head * x->strides[1], x->strides[2],
          x->strides[3]};
}

// ---- rows of one tile, compiled for each instruction set ----------------------------------------

template <class T>
TAPEHEAD_MULTIVERSION T row_max(const T* x, std::int64_t count) {
  T largest = -infinity<T>;
#pragma omp simd reduction(max : largest)
  for (std::int64_t j = 0; j < count; ++j) largest = x[j] > largest ? x[j] : largest;
  return largest;
}

// x = exp(x - shift); returns the sum.
template <class T>
TAPEHEAD_MULTIVERSION T exp_row(T* x, std::int64_t count, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) {
    x[j] = exp(x[j] - shift);
    sum += x[j];
  }
  return sum;
}

// x = exp(x - shift) * factor.
template <class T>
TAPEHEAD_MULTIVERSION void weights_row(T* x, std::int64_t count, T shift, T factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) x[j] = exp(x[j] - shift) * factor;
}

template <class T>
TAPEHEAD_MULTIVERSION void scale_row(T* x, std::int64_t count, T factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) x[j] *= factor;
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
TAPEHEAD_MULTIVERSION bool finite_row(const T* x, std::int64_t count) {
  T sum = 0;  // 0 * x is NaN exactly when x is not finite
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += T(0) * x[j];
  return sum == T(0);
}

template <class T>
bool all_finite(Rows<const T> x, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (!finite_row(x.row(i), columns)) return false;
  return true;
}

// Which pairs of a tile are hidden, laid out as its scores.
using HiddenPairs = std::array<bool, tile * tile>;

// ---- one head -----------------------------------------------------------------------------------

template <class T>
class Head {
 public:
  Head(const View& q_view, const View& k_view, const View& v_view, const AttentionTerms& terms,
       std::int64_t batch, std::int64_t head)
      : queries(q_view.shape[2]),
        keys(k_view.shape[2]),
        features(q_view.shape[3]),
        value_features(v_view.shape[3]),
        terms_(terms),
        hidden_(grid<bool>(terms.hidden, batch, head)),
        bias_(grid<T>(terms.bias, batch, head)),
        index_((batch * q_view.shape[1] + head)) {
    const std::int64_t key_head = head / (q_view.shape[1] / k_view.shape[1]);
    q = matrix<const T>(q_view, batch, head);
    k = matrix<const T>(k_view, batch, key_head);
    v = matrix<const T>(v_view, batch, key_head);
  }

  // One past the last key that queries before `end` may see, the causal triangle considered.
  std::int64_t visible_end(std::int64_t end) const {
    return terms_.causal_offset ? std::min(keys, end + *terms_.causal_offset) : keys;
  }

  // Scores of a tile, scaled, biased, -infinity where hidden, into s (row-major, `tile` a row).
  // Returns whether any key of the tile is hidden from any of its queries. A hidden score is set,
  // not added to: a hidden key may be NaN.
  bool scores(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns,
              T* s) const {
    gemm_tile<T>(false, true, rows, columns, features, static_cast<T>(terms_.scale), q.row(i0),
                 q.step, k.row(j0), k.step, T(0), s, tile);
    bool any_hidden = false;
    for (std::int64_t i = 0; i < rows; ++i) {
      T* row = s + i * tile;
      if (terms_.bias)
        for (std::int64_t j = 0; j < columns; ++j) {
          const T added = bias_.at(i0 + i, j0 + j);
          const bool hides = added == -infinity<T>;
          row[j] = hides ? added : row[j] + added;
          any_hidden = any_hidden || hides;
        }
      if (terms_.hidden)
        for (std::int64_t j = 0; j < columns; ++j)
          if (hidden_.at(i0 + i, j0 + j)) {
            row[j] = -infinity<T>;
            any_hidden = true;
          }
      const std::int64_t seen = std::clamp<std::int64_t>(visible_end(i0 + i + 1) - j0, 0, columns);
      std::fill(row + seen, row + columns, -infinity<T>);
      any_hidden = any_hidden || seen < columns;
    }
    return any_hidden;
  }

  // Whether key j is hidden from query i. Its score does not tell: that of a visible key may be
  // -infinity too.
  bool hides(std::int64_t i, std::int64_t j) const {
    return j >= visible_end(i + 1) || (terms_.hidden && hidden_.at(i, j)) ||
           (terms_.bias && bias_.at(i, j) == -infinity<T>);
  }

  // Fills `pairs`; returns its elements.
  const bool* hidden_pairs(std::int64_t i0, std::int64_t rows, std::int64_t j0,
                           std::int64_t columns, HiddenPairs& pairs) const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        pairs[static_cast<std::size_t>(i * tile + j)] = hides(i0 + i, j0 + j);
    return pairs.data();
  }

  // Whether query i sees exactly one key.
  bool sees_one(std::int64_t i) const {
    const std::int64_t end = visible_end(i + 1);
    int seen = 0;
    for (std::int64_t j = 0; j < end && seen < 2; ++j) seen += hides(i, j) ? 0 : 1;
    return seen == 1;
  }

  // Whether all values that query i sees are finite.
  bool sees_finite_values(std::int64_t i) const {
    const std::int64_t end = visible_end(i + 1);
    for (std::int64_t j = 0; j < end; ++j)
      if (!hides(i, j) && !finite_row(v.row(j), value_features)) return false;
    return true;
  }

  // Drops entries of a tile of weights (or of their gradient) and scales the others, as dropout of
  // the whole (B, H, L, S) tensor would.
  void drop(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns, T* s) const {
    if (!terms_.dropout) return;
    const auto& [random, last_dropped, scale] = *terms_.dropout;
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto first = static_cast<std::uint64_t>((index_ * queries + i0 + i) * keys + j0);
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::uint64_t word = random.offset + first + static_cast<std::uint64_t>(j);
        T& entry = s[i * tile + j];
        entry = random_bits(random.key, word) > last_dropped ? entry * static_cast<T>(scale) : T(0);
      }
    }
  }

  const std::int64_t queries, keys, features, value_features;
  Rows<const T> q, k, v;

 private:
  const AttentionTerms& terms_;
  Grid<bool> hidden_;
  Grid<T> bias_;
  std::int64_t index_;  // of this head among all (batch, head)
};

// A tile of weights (or of their gradient) as a factor of a product.
template <class T>
struct Weights {
  const T* data;
  bool transposed;
  // The pairs to leave out of the sums, laid out as data; null where their weights of 0 do that,
  // for the other factor is finite.
  const bool* hidden;

  std::int64_t index(std::int64_t i, std::int64_t j) const {
    return transposed ? j * tile + i : i * tile + j;
  }
};

// c = alpha w x + beta c, with w (rows x inner) and x (inner x columns).
template <class T>
void add_product(const Weights<T>& w, std::int64_t rows, std::int64_t inner, Rows<const T> x,
                 std::int64_t columns, Rows<T> c, T alpha, T beta) {
  if (!w.hidden) {
    gemm_tile<T>(w.transposed, false, rows, columns, inner, alpha, w.data, tile, x.data, x.step,
                 beta, c.data, c.step);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    if (beta == T(0)) std::fill(c.row(i), c.row(i) + columns, T(0));
    for (std::int64_t l = 0; l < inner; ++l) {
      if (w.hidden[w.index(i, l)]) continue;
      const T weight = w.data[w.index(i, l)];
      for (std::int64_t j = 0; j < columns; ++j) c.row(i)[j] += alpha * (weight * x.row(l)[j]);
    }
  }
}

// ---- forward ------------------------------------------------------------------------------------

// Rescales what has been summed for a row of the tile to a new maximum, and adds the new weights.
template <class T>
void update_row(T* s, std::int64_t columns, T* y, std::int64_t value_features, T& maximum, T& sum) {
  const T previous = maximum;
  maximum = std::max(maximum, row_max(s, columns));
  if (maximum == -infinity<T>) {  // nothing seen so far
    // A NaN is no maximum: it stays in the scores, and so reaches the sum.
    const T added = exp_row(s, columns, T(0));
    sum += added;
    return;
  }
  const T factor = exp(previous - maximum);
  sum = sum * factor + exp_row(s, columns, maximum);
  if (factor != T(1)) scale_row(y, value_features, factor);
}

// `unit`: what a weight of 1 is in the sums.
template <class T>
void forward_rows(const Head<T>& head, std::int64_t i0, std::int64_t rows, Rows<T> y, T* maximum,
                  T* sum, T unit) {
  alignas(64) std::array<T, tile * tile> s;
  HiddenPairs hidden;
  std::fill_n(maximum, rows, -infinity<T>);
  std::fill_n(sum, rows, T(0));
  for (std::int64_t i = 0; i < rows; ++i) std::fill(y.row(i), y.row(i) + head.value_features, T(0));
  const std::int64_t end = head.visible_end(i0 + rows);
  for (std::int64_t j0 = 0; j0 < end; j0 += tile) {
    const std::int64_t columns = std::min(tile, end - j0);
    const bool any_hidden = head.scores(i0, rows, j0, columns, s.data());
    for (std::int64_t i = 0; i < rows; ++i)
      update_row(s.data() + i * tile, columns, y.row(i), head.value_features, maximum[i], sum[i]);
    head.drop(i0, rows, j0, columns, s.data());
    for (std::int64_t i = 0; i < rows && unit != T(1); ++i)
      scale_row(s.data() + i * tile, columns, unit);
    const Rows<const T> v{head.v.row(j0), head.v.step};
    const bool keep_out = any_hidden && !all_finite(v, columns, head.value_features);
    const bool* const left_out =
        keep_out ? head.hidden_pairs(i0, rows, j0, columns, hidden) : nullptr;
    add_product<T>({s.data(), false, left_out}, rows, columns, v, head.value_features, y, T(1),
                   T(1));
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    if (sum[i] == T(0)) sum[i] = infinity<T>;  // sees nothing: the weights are exp(-infinity) / sum
    else scale_row(y.row(i), head.value_features, T(1) / (unit * sum[i]));
    if (maximum[i] == -infinity<T>) maximum[i] = T(0);
  }
}

// The sums are divided by that of the weights only at the end, so that they may overflow where the
// output does not. Such rows are made again with weights so small that their sum is at most 1.
template <class T>
void repair_overflow(const Head<T>& head, std::int64_t i0, std::int64_t rows, Rows<T> y, T* maximum,
                     T* sum) {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (finite_row<T>(y.row(i), head.value_features)) continue;
    if (!std::isfinite(sum[i]) || !head.sees_finite_values(i0 + i)) continue;
    const T unit = std::ldexp(T(1), -std::ilogb(static_cast<double>(head.keys)) - 1);
    forward_rows<T>(head, i0 + i, 1, {y.row(i), y.step}, maximum + i, sum + i, unit);
  }
}

template <class T>
void forward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
             const View& y, const View& row_max, const View& row_sum) {
  const std::int64_t heads = q.shape[1], queries = q.shape[2];
  const std::int64_t blocks = (queries + tile - 1) / tile;
  parallel_for(q.shape[0] * heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t matrix_index = item / blocks, i0 = item % blocks * tile;
      const std::int64_t batch = matrix_index / heads, head_index = matrix_index % heads;
      const Rows<T> out = matrix<T>(y, batch, head_index);
      const std::int64_t first_row = matrix_index * queries + i0;
      const Head<T> head(q, k, v, terms, batch, head_index);
      const std::int64_t rows = std::min(tile, queries - i0);
      const Rows<T> block{out.row(i0), out.step};
      T* const maximum = row_max.as<T>() + first_row;
      T* const sum = row_sum.as<T>() + first_row;
      forward_rows<T>(head, i0, rows, block, maximum, sum, T(1));
      repair_overflow<T>(head, i0, rows, block, maximum, sum);
    }
  });
}

// ---- backward -----------------------------------------------------------------------------------

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

template <class T>
void backward_rows(const Head<T>& head, const HeadGradients<T>& out, double scale, std::int64_t i0,
                   std::int64_t rows) {
  alignas(64) std::array<T, tile * tile> a, da;
  HiddenPairs hidden;
  std::array<T, tile> d;
  std::array<bool, tile> sees_one;
  for (std::int64_t i = 0; i < rows; ++i) {
    d[static_cast<std::size_t>(i)] =
        dot_row(out.dy.row(i0 + i), out.y.row(i0 + i), head.value_features);
    // The sum is 1 for one key, and for a key far ahead of the others.
    sees_one[static_cast<std::size_t>(i)] = out.row_sum[i0 + i] == T(1) && head.sees_one(i0 + i);
  }
  const Rows<const T> q{head.q.row(i0), head.q.step}, dy{out.dy.row(i0), out.dy.step};
  const bool queries_finite =
      all_finite(q, rows, head.features) && all_finite(dy, rows, head.value_features);
  const std::int64_t end = head.visible_end(i0 + rows);
  const std::int64_t end_before = i0 == 0 ? 0 : head.visible_end(i0);
  for (std::int64_t j0 = 0; j0 < end; j0 += tile) {
    const std::int64_t columns = std::min(tile, end - j0);
    const bool any_hidden = head.scores(i0, rows, j0, columns, a.data());
    for (std::int64_t i = 0; i < rows; ++i)
      weights_row(a.data() + i * tile, columns, out.row_max[i0 + i], T(1) / out.row_sum[i0 + i]);
    gemm_tile<T>(false, true, rows, columns, head.value_features, T(1), dy.data, dy.step,
                 head.v.row(j0), head.v.step, T(0), da.data(), tile);
    head.drop(i0, rows, j0, columns, da.data());
    for (std::int64_t i = 0; i < rows; ++i)
      score_gradient_row(a.data() + i * tile, da.data() + i * tile, columns,
                         d[static_cast<std::size_t>(i)], sees_one[static_cast<std::size_t>(i)]);
    head.drop(i0, rows, j0, columns, a.data());
    const Rows<const T> k{head.k.row(j0), head.k.step};
    // A hidden pair has 0 in both tiles, but where something is not finite, which then shows in da.
    const bool keep_out = any_hidden && !(queries_finite && all_finite(k, columns, head.features) &&
                                          all_finite<T>({da.data(), tile}, rows, columns));
    const bool* const left_out =
        keep_out ? head.hidden_pairs(i0, rows, j0, columns, hidden) : nullptr;
    if (left_out) {
      clear(left_out, rows, columns, a.data());
      clear(left_out, rows, columns, da.data());
    }
    // Rows of dk and dv up to end_before hold the parts of earlier queries; those from there on are
    // written for the first time (by the first head of a group).
    const std::int64_t old =
        out.adds_to_k ? columns : std::clamp<std::int64_t>(end_before - j0, 0, columns);
    const auto add_to_keys = [&](std::int64_t first, std::int64_t count, T beta) {
      if (count == 0) return;
      const bool* const pairs = left_out ? left_out + first : nullptr;
      add_product<T>({a.data() + first, true, pairs}, count, rows, dy, head.value_features,
                     {out.dv.row(j0 + first), out.dv.step}, T(1), beta);
      add_product<T>({da.data() + first, true, pairs}, count, rows, q, head.features,
                     {out.dk.row(j0 + first), out.dk.step}, static_cast<T>(scale), beta);
    };
    add_to_keys(0, old, T(1));
    add_to_keys(old, columns - old, T(0));
    add_product<T>({da.data(), false, left_out}, rows, columns, k, head.features,
                   {out.dq.row(i0), out.dq.step}, static_cast<T>(scale), j0 == 0 ? T(0) : T(1));
    if (out.dbias)
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(da.data() + i * tile, columns, out.dbias + (i0 + i) * head.keys + j0);
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
        const std::int64_t never_seen = queries == 0 ? 0 : head.visible_end(queries);
        for (std::int64_t j = never_seen; g == 0 && j < head.keys; ++j) {
          std::fill(dk_rows.row(j), dk_rows.row(j) + head.features, T(0));
          std::fill(dv_rows.row(j), dv_rows.row(j) + head.value_features, T(0));
        }
      }
    }
  });
}

}  // namespace

void attention_forward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                       const View& y, const View& row_max, const View& row_sum) {
  visit_floating(q.dtype,
                 [&](auto zero) { forward<decltype(zero)>(q, k, v, terms, y, row_max, row_sum); });
}

void attention_backward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                        const View& y, const View& row_max, const View& row_sum, const View& dy,
                        const View& dq, const View& dk, const View& dv, const View* dbias) {
  visit_floating(q.dtype, [&](auto zero) {
    backward<decltype(zero)>(q, k, v, terms, y, row_max, row_sum, dy, dq, dk, dv, dbias);
  });
}

}  // namespace tapehead::kernels
