#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/lines.h>
#include <tapehead/ops/kernels/search.h>

#include <algorithm>

namespace tapehead::kernels {
namespace {

// The largest (smallest) of adjacent values, NaN if one is.
template <class T>
TAPEHEAD_MULTIVERSION T extreme(const T* x, std::int64_t count, bool largest) {
  const auto value = [x](std::int64_t i) __attribute__((always_inline)) { return x[i]; };
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (largest) return max_run(x, count);
  return fold_run<T, T>(
      count, infinity, value,
      [](T a, T b) __attribute__((always_inline)) { return smaller(a, b); });
}

// Whether `a` beats `best`, which was met before it.
template <class T>
bool beats(T a, T best, bool largest) {
  if (best != best) return false;
  return a != a || (largest ? a > best : a < best);
}

// The first place of the extreme value, or of a NaN, in a line of adjacent elements: two passes, of
// which one vectorises and the other is short on average.
template <class T>
std::int64_t argmax_line(const T* x, std::int64_t length, bool largest) {
  const T best = extreme(x, length, largest);
  return std::find_if(x, x + length, [=](T value) { return value == best || value != value; }) - x;
}

template <class T>
void argmax_lines(const T* x, std::int64_t* index, const Lines<2>& lines, bool largest) {
  if (lines.step[0] == 1) {
    for (std::int64_t j = 0; j < lines.width; ++j)
      index[j * lines.next[1]] = argmax_line(x + j * lines.next[0], lines.length, largest);
    return;
  }
  T best[Lines<2>::max_width];
  std::int64_t where[Lines<2>::max_width] = {};
  for (std::int64_t j = 0; j < lines.width; ++j) best[j] = x[j * lines.next[0]];
  for (std::int64_t i = 1; i < lines.length; ++i) {
    const T* from = x + i * lines.step[0];
    for (std::int64_t j = 0; j < lines.width; ++j) {
      const T value = from[j * lines.next[0]];
      if (!beats(value, best[j], largest)) continue;
      best[j] = value;
      where[j] = i;
    }
  }
  for (std::int64_t j = 0; j < lines.width; ++j) index[j * lines.next[1]] = where[j];
}

// Keeps the k best seen so far in `best`, a heap with the worst of them on top.
template <class T>
void topk_line(const T* x, std::int64_t length, std::int64_t step, std::int64_t* best,
               std::int64_t k, bool largest) {
  const auto comes_first = [&](std::int64_t i, std::int64_t j) {
    const T a = x[i * step], b = x[j * step];
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan != b_nan) return a_nan == largest;
    if (a == b || a_nan) return i < j;
    return (a > b) == largest;
  };
  for (std::int64_t i = 0; i < k; ++i) best[i] = i;
  std::make_heap(best, best + k, comes_first);
  for (std::int64_t i = k; i < length; ++i) {
    if (!comes_first(i, best[0])) continue;
    std::pop_heap(best, best + k, comes_first);
    best[k - 1] = i;
    std::push_heap(best, best + k, comes_first);
  }
  std::sort_heap(best, best + k, comes_first);
}

}  // namespace

void argmax(const View& x, const View& index, std::int64_t dim, bool largest) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_lines<2>({&x, &index}, dim, [&](const Lines<2>& lines) {
      argmax_lines(x.as<const T>() + lines.start[0], index.as<std::int64_t>() + lines.start[1],
                   lines, largest);
    });
  });
}

void topk(const View& x, const View& index, std::int64_t dim, bool largest) {
  const std::int64_t k = index.shape.rank() == 0 ? 1 : index.shape[dim];
  if (k == 0) return;
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_lines<2>({&x, &index}, dim, [&](const Lines<2>& lines) {
      for (std::int64_t j = 0; j < lines.width; ++j)
        topk_line(x.as<const T>() + lines.start[0] + j * lines.next[0], lines.length, lines.step[0],
                  index.as<std::int64_t>() + lines.start[1] + j * lines.next[1], k, largest);
    });
  });
}

}  // namespace tapehead::kernels
