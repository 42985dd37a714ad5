#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/math.h>
#include <tapehead/ops/kernels/prefetch.h>
#include <tapehead/ops/kernels/softmax.h>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t grain = 4096;    // elements, with an exponential for each
constexpr std::int64_t short_row = 16;  // up to here a sum of exact products costs no time

// ---- along rows: `rows` rows of n adjacent elements ---------------------------------------------

// What exp's argument is taken relative to. A row of -inf has no finite maximum: exp(x) itself is
// the right 0 there.
template <class T>
TAPEHEAD_INLINE T offset_of(T max) {
  return max == -std::numeric_limits<T>::infinity() ? T(0) : max;
}

// 1 / total in two parts, so that its rounding does not show; a row without any weight gets
// `empty`.
template <class T>
struct Scale {
  T near, rest;
  Scale() = default;
  TAPEHEAD_INLINE Scale(double total, T empty)
      : near(total == 0 ? empty : static_cast<T>(1 / total)),
        rest(total == 0 ? T(0) : static_cast<T>(1 / total - static_cast<double>(near))) {}
  TAPEHEAD_INLINE T operator*(T weight) const { return weight * near + weight * rest; }
};

template <class T>
TAPEHEAD_MULTIVERSION void softmax_rows(const T* x, T* y, std::int64_t rows, std::int64_t n,
                                        T empty) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T offset = offset_of(max_run(x, n));
    if (r + 1 < rows) prefetch(x + n, n);
    const double total = sum_run<T>(
        n, [=](std::int64_t i)
               __attribute__((always_inline)) { return y[i] = exp(x[i] - offset); });
    const Scale<T> scale(total, empty);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = scale * y[i];
  }
}

// Where g and the dot product nearly cancel, the rounding of the latter is all that would show:
// here it is a sum of exact products, in two parts.
template <class T>
TAPEHEAD_INLINE void softmax_backward_short_row(const T* g, const T* y, T* dx, std::int64_t n) {
  double dot = 0;
  for (std::int64_t i = 0; i < n; ++i) dot += static_cast<double>(g[i]) * static_cast<double>(y[i]);
  const T near = static_cast<T>(dot);
  const T rest = std::isfinite(near) ? static_cast<T>(dot - static_cast<double>(near)) : T(0);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] * ((g[i] - near) - rest);
}

template <class T>
TAPEHEAD_MULTIVERSION void softmax_backward_rows(const T* g, const T* y, T* dx, std::int64_t rows,
                                                 std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, g += n, y += n, dx += n) {
    if (n <= short_row) {
      softmax_backward_short_row(g, y, dx, n);
      continue;
    }
    const T dot = static_cast<T>(sum_run<T>(
        n, [=](std::int64_t i) __attribute__((always_inline)) { return g[i] * y[i]; }));
    if (r + 1 < rows) prefetch(g + n, n), prefetch(y + n, n);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - dot);
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void log_softmax_rows(const T* x, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T max = max_run(x, n);
    if (r + 1 < rows) prefetch(x + n, n);
    const double total = sum_run<T>(
        n, [=](std::int64_t i) __attribute__((always_inline)) { return exp(x[i] - max); });
    const T log_total = static_cast<T>(std::log(total));
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log_total;
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void log_softmax_backward_rows(const T* g, const T* y, T* dx,
                                                     std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, g += n, y += n, dx += n) {
    const T total = static_cast<T>(sum_run<T>(
        n, [=](std::int64_t i) __attribute__((always_inline)) { return g[i]; }));
    if (r + 1 < rows) prefetch(g + n, n), prefetch(y + n, n);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) dx[i] = g[i] - exp(y[i]) * total;
  }
}

// ---- along columns: `width` columns side by side, n elements each, `step` apart -----------------

constexpr std::int64_t block = 128;  // columns of one call: their accumulators stay in the L1 cache

template <class T>
TAPEHEAD_MULTIVERSION void max_columns(const T* x, std::int64_t n, std::int64_t step,
                                       std::int64_t width, T* max) {
  for (std::int64_t j = 0; j < width; ++j) max[j] = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = 0; i < n; ++i, x += step) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) max[j] = larger(max[j], x[j]);
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void softmax_columns(const T* x, T* y, std::int64_t n, std::int64_t step,
                                           std::int64_t width, T empty) {
  T offset[block];
  Scale<T> scale[block];
  double total[block] = {};
  max_columns(x, n, step, width, offset);
  for (std::int64_t j = 0; j < width; ++j) offset[j] = offset_of(offset[j]);
  for (std::int64_t i = 0; i < n; ++i) {
    const T* from = x + i * step;
    T* to = y + i * step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) {
      to[j] = exp(from[j] - offset[j]);
      total[j] += static_cast<double>(to[j]);
    }
  }
  for (std::int64_t j = 0; j < width; ++j) scale[j] = Scale<T>(total[j], empty);
  for (std::int64_t i = 0; i < n; ++i, y += step) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) y[j] = scale[j] * y[j];
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void softmax_backward_columns(const T* g, const T* y, T* dx, std::int64_t n,
                                                    std::int64_t step, std::int64_t width) {
  double total[block] = {};
  T dot[block];
  for (std::int64_t i = 0; i < n; ++i) {
    const T *gi = g + i * step, *yi = y + i * step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j)
      total[j] += static_cast<double>(gi[j]) * static_cast<double>(yi[j]);
  }
  for (std::int64_t j = 0; j < width; ++j) dot[j] = static_cast<T>(total[j]);
  for (std::int64_t i = 0; i < n; ++i, g += step, y += step, dx += step) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) dx[j] = y[j] * (g[j] - dot[j]);
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void log_softmax_columns(const T* x, T* y, std::int64_t n, std::int64_t step,
                                               std::int64_t width) {
  T max[block], log_total[block];
  double total[block] = {};
  max_columns(x, n, step, width, max);
  for (std::int64_t i = 0; i < n; ++i) {
    const T* from = x + i * step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(exp(from[j] - max[j]));
  }
  for (std::int64_t j = 0; j < width; ++j) log_total[j] = static_cast<T>(std::log(total[j]));
  for (std::int64_t i = 0; i < n; ++i, x += step, y += step) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) y[j] = (x[j] - max[j]) - log_total[j];
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void log_softmax_backward_columns(const T* g, const T* y, T* dx,
                                                        std::int64_t n, std::int64_t step,
                                                        std::int64_t width) {
  double total[block] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const T* gi = g + i * step;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) total[j] += static_cast<double>(gi[j]);
  }
  for (std::int64_t i = 0; i < n; ++i, g += step, y += step, dx += step) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) dx[j] = g[j] - exp(y[j]) * static_cast<T>(total[j]);
  }
}

// ---- over the whole tensor ----------------------------------------------------------------------

// Calls rows(offset, rows, n) when the dim is the innermost, else columns(offset, n, step, width).
template <class Rows, class Columns>
void along_dim(const View& x, std::int64_t dim, Rows rows, Columns columns) {
  const std::int64_t total = numel(x.shape);
  if (total == 0) return;
  const std::int64_t n = x.shape.rank() == 0 ? 1 : x.shape[dim];
  std::int64_t inner = 1;
  for (std::int64_t i = dim + 1; i < x.shape.rank(); ++i) inner *= x.shape[i];
  if (inner == 1) {
    const auto run_rows = [&](std::int64_t begin, std::int64_t end) {
      rows(begin * n, end - begin, n);
    };
    parallel_for(total / n, grain / n + 1, run_rows);
    return;
  }
  const std::int64_t blocks = (inner + block - 1) / block;
  const auto run_blocks = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t first = k % blocks * block;
      columns(k / blocks * n * inner + first, n, inner, std::min(block, inner - first));
    }
  };
  parallel_for(total / (n * inner) * blocks, grain / (n * std::min(inner, block)) + 1, run_blocks);
}

}  // namespace

void softmax(const View& x, const View& y, std::int64_t dim, bool zero_empty) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.as<const T>();
    T* to = y.as<T>();
    const T empty = zero_empty ? T(0) : std::numeric_limits<T>::quiet_NaN();
    along_dim(
        x, dim,
        [=](std::int64_t at, std::int64_t rows, std::int64_t n) {
          softmax_rows(from + at, to + at, rows, n, empty);
        },
        [=](std::int64_t at, std::int64_t n, std::int64_t step, std::int64_t width) {
          softmax_columns(from + at, to + at, n, step, width, empty);
        });
  });
}

namespace {

// The gradient of lines along `dim`: rows(g, y, dx, ...) where they lie in unit steps, else
// columns(g, y, dx, ...).
template <class Rows, class Columns>
void gradient_along_dim(const View& g, const View& y, const View& dx, std::int64_t dim, Rows rows,
                        Columns columns) {
  visit_floating(g.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *from = g.as<const T>(), *result = y.as<const T>();
    T* to = dx.as<T>();
    along_dim(
        g, dim,
        [=](std::int64_t at, std::int64_t count, std::int64_t n) {
          rows(from + at, result + at, to + at, count, n);
        },
        [=](std::int64_t at, std::int64_t n, std::int64_t step, std::int64_t width) {
          columns(from + at, result + at, to + at, n, step, width);
        });
  });
}

}  // namespace

void softmax_backward(const View& g, const View& y, const View& dx, std::int64_t dim) {
  gradient_along_dim(
      g, y, dx, dim, [](auto... line) { softmax_backward_rows(line...); },
      [](auto... line) { softmax_backward_columns(line...); });
}

void log_softmax(const View& x, const View& y, std::int64_t dim) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.as<const T>();
    T* to = y.as<T>();
    along_dim(
        x, dim,
        [=](std::int64_t at, std::int64_t rows, std::int64_t n) {
          log_softmax_rows(from + at, to + at, rows, n);
        },
        [=](std::int64_t at, std::int64_t n, std::int64_t step, std::int64_t width) {
          log_softmax_columns(from + at, to + at, n, step, width);
        });
  });
}

void log_softmax_backward(const View& g, const View& y, const View& dx, std::int64_t dim) {
  gradient_along_dim(
      g, y, dx, dim, [](auto... line) { log_softmax_backward_rows(line...); },
      [](auto... line) { log_softmax_backward_columns(line...); });
}

}  // namespace tapehead::kernels
