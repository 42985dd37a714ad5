#include <tapehead/ops/kernels/blas.h>
#include <tapehead/ops/kernels/fused_attention_head.h>
#include <tapehead/ops/kernels/multiversion.h>

namespace tapehead::kernels::attention {
namespace {

template <class T>
Grid<T> grid(const View* x, std::int64_t batch, std::int64_t head) {
  if (!x) return {};
  return {x->as<const T>() + batch * x->strides[0] + head * x->strides[1], x->strides[2],
          x->strides[3]};
}

template <class T>
TAPEHEAD_MULTIVERSION bool finite_row(const T* x, std::int64_t count) {
  T sum = 0;  // 0 * x is NaN exactly when x is not finite
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) sum += T(0) * x[j];
  return sum == T(0);
}

}  // namespace

template <class T>
bool all_finite(Rows<const T> x, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (!finite_row(x.row(i), columns)) return false;
  return true;
}

template <class T>
Head<T>::Head(const View& q_view, const View& k_view, const View& v_view,
              const AttentionTerms& terms, std::int64_t batch, std::int64_t head)
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

// A hidden score is set, not added to: a hidden key may be NaN.
template <class T>
bool Head<T>::scores(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns,
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

template <class T>
bool Head<T>::hides(std::int64_t i, std::int64_t j) const {
  return j >= visible_end(i + 1) || (terms_.hidden && hidden_.at(i, j)) ||
         (terms_.bias && bias_.at(i, j) == -infinity<T>);
}

template <class T>
const bool* Head<T>::hidden_pairs(std::int64_t i0, std::int64_t rows, std::int64_t j0,
                                  std::int64_t columns, HiddenPairs& pairs) const {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      pairs[static_cast<std::size_t>(i * tile + j)] = hides(i0 + i, j0 + j);
  return pairs.data();
}

template <class T>
bool Head<T>::sees_one(std::int64_t i) const {
  const std::int64_t end = visible_end(i + 1);
  int seen = 0;
  for (std::int64_t j = 0; j < end && seen < 2; ++j) seen += hides(i, j) ? 0 : 1;
  return seen == 1;
}

template <class T>
bool Head<T>::sees_finite_values(std::int64_t i) const {
  const std::int64_t end = visible_end(i + 1);
  for (std::int64_t j = 0; j < end; ++j)
    if (!hides(i, j) && !finite_row(v.row(j), value_features)) return false;
  return true;
}

template <class T>
void Head<T>::drop(std::int64_t i0, std::int64_t rows, std::int64_t j0, std::int64_t columns,
                   T* s) const {
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

template bool all_finite(Rows<const float>, std::int64_t, std::int64_t);
template bool all_finite(Rows<const double>, std::int64_t, std::int64_t);
template class Head<float>;
template class Head<double>;
template void add_product(const Weights<float>&, std::int64_t, std::int64_t, Rows<const float>,
                          std::int64_t, Rows<float>, float, float);
template void add_product(const Weights<double>&, std::int64_t, std::int64_t, Rows<const double>,
                          std::int64_t, Rows<double>, double, double);

}  // namespace tapehead::kernels::attention
