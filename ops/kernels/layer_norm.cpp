#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/layer_norm.h>
#include <tapehead/ops/kernels/prefetch.h>

#include <cmath>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t grain = 8192;  // elements
constexpr int group = 4;              // rows whose parts are added before they join a sum over rows
constexpr std::int64_t short_row = 16;  // up to here double for floats costs no time that counts

// ---- forward ------------------------------------------------------------------------------------

// Whether squares computed in T overflowed, or are so small that denormal numbers took their digits
// and eps does not hide it.
template <class T>
bool lost_squares(double squares, const NormForward& args) {
  const double least = 4 * static_cast<double>(std::numeric_limits<T>::min());
  return !std::isfinite(squares) ||
         (squares < least * static_cast<double>(args.n) && args.eps < least);
}

// A row that is short or whose squares are lost: in double, relative to its largest magnitude.
template <class T>
void normalize_in_double(const NormForward& args, std::int64_t row) {
  const std::int64_t n = args.n;
  const T *x = static_cast<const T*>(args.x) + row * n,
          *weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  T* y = static_cast<T*>(args.y) + row * n;
  double largest = std::sqrt(args.eps);  // where that is more, it decides
  for (std::int64_t i = 0; i < n; ++i)
    largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  const auto small = [=](std::int64_t i) { return static_cast<double>(x[i]) / largest; };
  const auto mean_of = [n](auto term) { return sum_run<double>(n, term) / static_cast<double>(n); };
  double mean = 0;
  for (int pass = 0; pass < 2 && args.mean; ++pass)
    mean += mean_of([=](std::int64_t i) { return small(i) - mean; });
  const double power =
      mean_of([=](std::int64_t i) { return (small(i) - mean) * (small(i) - mean); });
  const double scale = 1 / std::sqrt(power + args.eps / largest / largest);
  for (std::int64_t i = 0; i < n; ++i) {
    const double xhat = (small(i) - mean) * scale;
    const double scaled = weight ? xhat * static_cast<double>(weight[i]) : xhat;
    y[i] = static_cast<T>(bias ? scaled + static_cast<double>(bias[i]) : scaled);
  }
  static_cast<T*>(args.rstd)[row] = static_cast<T>(scale / largest);
  if (args.mean) static_cast<T*>(args.mean)[row] = static_cast<T>(mean * largest);
}

// The mean is found twice: of x, and of what is left after subtracting that. The second corrects
// the rounding of the first, which matters when the mean is large beside the deviation.
template <class T>
TAPEHEAD_MULTIVERSION void center_rows(const NormForward& args, std::int64_t begin,
                                       std::int64_t end) {
  const std::int64_t n = args.n;
  const T *weight = static_cast<const T*>(args.weight), *bias = static_cast<const T*>(args.bias);
  T *mean = static_cast<T*>(args.mean), *rstd = static_cast<T*>(args.rstd);
  const double count = static_cast<double>(n);
  for (std::int64_t r = begin; r < end; ++r) {
    if (sizeof(T) < sizeof(double) && n <= short_row) {
      normalize_in_double<T>(args, r);
      continue;
    }
    const T* x = static_cast<const T*>(args.x) + r * n;
    T* y = static_cast<T*>(args.y) + r * n;
    const T near =
        static_cast<T>(sum_run<T>(
                           n, [=](std::int64_t i) __attribute__((always_inline)) { return x[i]; }) /
                       count);
    if (r + 1 < end) prefetch(x + n, n);
    const auto [deviations, squares] = sum_runs<T>(
        n, [=](std::int64_t i) __attribute__((always_inline)) { return x[i] - near; },
        [=](std::int64_t i) __attribute__((always_inline)) {
          const T d = x[i] - near;
          return d * d;
        });
    const double rest = deviations / count;
    if (lost_squares<T>(squares, args)) {
      normalize_in_double<T>(args, r);
      continue;
    }
    const double variance = std::max(0.0, squares / count - rest * rest);
    const T scale = static_cast<T>(1 / std::sqrt(variance + args.eps));
    const T shift = static_cast<T>(rest);
    mean[r] = static_cast<T>(static_cast<double>(near) + rest);
    rstd[r] = scale;
    if (!weight) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = ((x[i] - near) - shift) * scale;
    } else if (!bias) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = ((x[i] - near) - shift) * scale * weight[i];
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        y[i] = ((x[i] - near) - shift) * scale * weight[i] + bias[i];
    }
  }
}

template <class T>
TAPEHEAD_MULTIVERSION void scale_rows(const NormForward& args, std::int64_t begin,
                                      std::int64_t end) {
  const std::int64_t n = args.n;
  const T* weight = static_cast<const T*>(args.weight);
  T* rstd = static_cast<T*>(args.rstd);
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * n;
    T* y = static_cast<T*>(args.y) + r * n;
    // In double: the squares of floats overflow long before their root does.
    const double squares = sum_run<double>(
        n, [=](std::int64_t i) __attribute__((always_inline)) {
          const double xi = static_cast<double>(x[i]);
          return xi * xi;
        });
    if (lost_squares<double>(squares, args)) {
      normalize_in_double<T>(args, r);
      continue;
    }
    const T scale = static_cast<T>(1 / std::sqrt(squares / static_cast<double>(n) + args.eps));
    rstd[r] = scale;
    if (!weight) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale;
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
    }
  }
}

// ---- backward -----------------------------------------------------------------------------------

// The mean in two parts, as in the forward pass.
template <class T>
struct RowStats {
  T mean, rest, rstd;
};

template <class T>
TAPEHEAD_MULTIVERSION T mean_deviation(const T* x, T mean, std::int64_t n) {
  return static_cast<T>(
      sum_run<T>(
          n, [=](std::int64_t i) __attribute__((always_inline)) { return x[i] - mean; }) /
      static_cast<double>(n));
}

// A mean no larger than the deviation is rounded by less than an element of xhat is; a larger one
// gets back what its rounding took, and no more.
template <class T>
RowStats<T> centered_stats(const T* x, T mean, T rstd, std::int64_t n) {
  if (std::abs(mean) * rstd <= T(1)) return {mean, T(0), rstd};
  const T ulp = std::abs(mean) * std::numeric_limits<T>::epsilon();
  return {mean, std::clamp(mean_deviation(x, mean, n), -ulp, ulp), rstd};
}

// Adds the parts of `count` rows to the sums over rows.
template <std::size_t count, class T>
TAPEHEAD_MULTIVERSION void add_to_sums(const T* g, const T* x, const RowStats<T>* stats,
                                       std::int64_t n, double* dweight, double* dbias) {
  RowStats<T> s[count];
  std::copy(stats, stats + count, s);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    T weight_part = 0, bias_part = 0;
    for (std::size_t r = 0; r < count; ++r) {
      const std::int64_t at = static_cast<std::int64_t>(r) * n + i;
      weight_part += g[at] * (((x[at] - s[r].mean) - s[r].rest) * s[r].rstd);
      bias_part += g[at];
    }
    dweight[i] += static_cast<double>(weight_part);
    dbias[i] += static_cast<double>(bias_part);
  }
}

template <bool centered, class T>
TAPEHEAD_MULTIVERSION void input_gradient_row(const T* g, const T* x, const T* weight,
                                              RowStats<T> stats, T* dx, std::int64_t n) {
  const auto u = [=](std::int64_t i) __attribute__((always_inline)) {
    return weight ? g[i] * weight[i] : g[i];
  };
  const auto xhat = [=](std::int64_t i) __attribute__((always_inline)) {
    return ((x[i] - stats.mean) - stats.rest) * stats.rstd;
  };
  const double count = static_cast<double>(n);
  const auto u_xhat = [=](std::int64_t i) __attribute__((always_inline)) { return u(i) * xhat(i); };
  std::array<double, 2> sums{};
  if constexpr (centered) sums = sum_runs<T>(n, u, u_xhat);
  else sums[1] = sum_run<T>(n, u_xhat);
  const T mean_u = static_cast<T>(sums[0] / count), mean_u_xhat = static_cast<T>(sums[1] / count);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = stats.rstd * (u(i) - mean_u - xhat(i) * mean_u_xhat);
}

template <class T>
class Backward {
 public:
  explicit Backward(const NormBackward& args)
      : args_(args),
        g_(static_cast<const T*>(args.g)),
        x_(static_cast<const T*>(args.x)),
        mean_(static_cast<const T*>(args.mean)),
        rstd_(static_cast<const T*>(args.rstd)),
        weight_(static_cast<const T*>(args.weight)),
        dx_(static_cast<T*>(args.dx)) {}

  void run() {
    const std::int64_t chunks = norm_chunks(args_.rows);
    const std::int64_t chunk_work = args_.rows * args_.n / chunks;
    const auto run_chunks = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) run_chunk(chunk, chunks);
    };
    parallel_for(chunks, grain / std::max<std::int64_t>(chunk_work, 1) + 1, run_chunks);
  }

 private:
  void run_chunk(std::int64_t chunk, std::int64_t chunks) {
    const std::int64_t n = args_.n, last = args_.rows * (chunk + 1) / chunks;
    double* dweight = args_.dweight ? args_.dweight + chunk * n : nullptr;
    double* dbias = args_.dbias ? args_.dbias + chunk * n : nullptr;
    if (dweight) {
      std::fill(dweight, dweight + n, 0.0);
      std::fill(dbias, dbias + n, 0.0);
    }
    for (std::int64_t r = args_.rows * chunk / chunks; r < last;) {
      const int count = last - r >= group ? group : 1;
      RowStats<T> stats[group];
      for (int k = 0; k < count; ++k) stats[k] = stats_of(r + k);
      // The sums first: dx may overwrite g.
      if (dweight) {
        const auto add = count == group ? add_to_sums<group, T> : add_to_sums<1, T>;
        add(g_ + r * n, x_ + r * n, stats, n, dweight, dbias);
      }
      if (dx_) {
        const auto row = mean_ ? input_gradient_row<true, T> : input_gradient_row<false, T>;
        for (int k = 0; k < count; ++k) {
          if (const std::int64_t next = r + count + k; next < last) {
            prefetch(g_ + next * n, n);
            prefetch(x_ + next * n, n);
          }
          row(g_ + (r + k) * n, x_ + (r + k) * n, weight_, stats[k], dx_ + (r + k) * n, n);
        }
      }
      r += count;
    }
  }

  RowStats<T> stats_of(std::int64_t row) const {
    if (!mean_) return {T(0), T(0), rstd_[row]};
    return centered_stats(x_ + row * args_.n, mean_[row], rstd_[row], args_.n);
  }

  const NormBackward& args_;
  const T *g_, *x_, *mean_, *rstd_, *weight_;
  T* dx_;
};

}  // namespace

void norm_forward(DType dtype, const NormForward& args) {
  visit_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run_rows = [&](std::int64_t begin, std::int64_t end) {
      if (args.mean) center_rows<T>(args, begin, end);
      else scale_rows<T>(args, begin, end);
    };
    parallel_for(args.rows, grain / std::max<std::int64_t>(args.n, 1) + 1, run_rows);
  });
}

void norm_backward(DType dtype, const NormBackward& args) {
  visit_floating(dtype, [&](auto zero) { Backward<decltype(zero)>(args).run(); });
}

std::int64_t norm_chunks(std::int64_t rows) {
  constexpr std::int64_t least_rows = 8, most_chunks = 32;
  return std::clamp<std::int64_t>(rows / least_rows, 1, most_chunks);
}

}  // namespace tapehead::kernels
