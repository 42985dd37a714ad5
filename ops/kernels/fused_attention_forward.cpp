// The forward pass of fused attention: for each block of queries, once over the tiles of keys, with
// a running maximum and sum (online softmax).
#include <tapehead/ops/kernels/fused_attention_head.h>
#include <tapehead/ops/kernels/math.h>

#include <cmath>

namespace tapehead::kernels::attention {
namespace {

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

template <class T>
TAPEHEAD_MULTIVERSION void scale_row(T* x, std::int64_t count, T factor) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) x[j] *= factor;
}

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
    const Rows<const T> v = head.v.from(j0);
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
    if (all_finite<T>({y.row(i), y.step}, 1, head.value_features)) continue;
    if (!std::isfinite(sum[i]) || !head.sees_finite_values(i0 + i)) continue;
    const T unit = std::ldexp(T(1), -std::ilogb(static_cast<double>(head.keys)) - 1);
    forward_rows<T>(head, i0 + i, 1, y.from(i), maximum + i, sum + i, unit);
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
      const Rows<T> block = out.from(i0);
      T* const maximum = row_max.as<T>() + first_row;
      T* const sum = row_sum.as<T>() + first_row;
      forward_rows<T>(head, i0, rows, block, maximum, sum, T(1));
      repair_overflow<T>(head, i0, rows, block, maximum, sum);
    }
  });
}

}  // namespace
}  // namespace tapehead::kernels::attention

namespace tapehead::kernels {

void attention_forward(const View& q, const View& k, const View& v, const AttentionTerms& terms,
                       const View& y, const View& row_max, const View& row_sum) {
  visit_floating(q.dtype, [&](auto zero) {
    attention::forward<decltype(zero)>(q, k, v, terms, y, row_max, row_sum);
  });
}

}  // namespace tapehead::kernels
