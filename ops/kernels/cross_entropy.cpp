#include <tapehead/ops/kernels/cross_entropy.h>
#include <tapehead/ops/kernels/fold.h>
#include <tapehead/ops/kernels/math.h>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t grain = 4096;  // elements, with an exponential for each

// The weights of a call: those given, or 1.
template <class T>
class Weights {
 public:
  explicit Weights(const ClassTargets& targets)
      : weight_(static_cast<const T*>(targets.weight)),
        total_(weight_ ? 0 : static_cast<double>(targets.classes)) {
    for (std::int64_t c = 0; weight_ && c < targets.classes; ++c) total_ += (*this)[c];
  }
  double operator[](std::int64_t c) const { return weight_ ? static_cast<double>(weight_[c]) : 1; }
  double total() const { return total_; }
  const T* data() const { return weight_; }

 private:
  const T* weight_;
  double total_;
};

template <class T>
struct RowSums {
  T max;
  double total;   // of exp(x - max)
  double smooth;  // sum of weight * (x - max)
};

template <class T>
TAPEHEAD_MULTIVERSION RowSums<T> sums_of_row(const T* x, const T* weight, std::int64_t n,
                                             bool smooth) {
  const T max = max_run(x, n);
  const double total = sum_run<T>(
      n, [=](std::int64_t c) __attribute__((always_inline)) { return exp(x[c] - max); });
  RowSums<T> sums{max, total, 0};
  if (smooth)
    sums.smooth = sum_run<T>(
        n, [=](std::int64_t c) __attribute__((always_inline)) {
          return weight ? weight[c] * (x[c] - max) : x[c] - max;
        });
  return sums;
}

// y = exp(x - max), and its sum.
template <class T>
TAPEHEAD_MULTIVERSION double exponentials_of_row(const T* x, std::int64_t n, T max, T* y) {
#pragma omp simd
  for (std::int64_t c = 0; c < n; ++c) y[c] = exp(x[c] - max);
  return sum_run<T>(
      n, [=](std::int64_t c) __attribute__((always_inline)) { return y[c]; });
}

// dx = dx * scale - spread * weight.
template <class T>
TAPEHEAD_MULTIVERSION void scale_row(const T* weight, std::int64_t n, T scale, T spread, T* dx) {
  if (weight) {
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) dx[c] = dx[c] * scale - spread * weight[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) dx[c] = dx[c] * scale - spread;
  }
}

template <class T>
void backward_row(const ClassTargets& targets, const Weights<T>& weights, std::int64_t row,
                  const T* x, double g, T* dx) {
  const std::int64_t n = targets.classes, t = targets.at(row);
  const double sharp = (1 - targets.smoothing) * weights[t];
  const double spread = targets.smoothing / static_cast<double>(n);
  const double mass = sharp + spread * weights.total();
  const T max = max_run(x, n);
  const double total = exponentials_of_row(x, n, max, dx);
  scale_row(weights.data(), n, static_cast<T>(mass * g / total), static_cast<T>(spread * g), dx);
  // p - 1 at the target, without the cancellation when p is close to 1.
  const double log_p = (static_cast<double>(x[t]) - static_cast<double>(max)) - std::log(total);
  const double below_one = std::expm1(log_p);
  dx[t] = static_cast<T>(g * (mass * below_one + spread * (weights.total() - weights[t])));
}

template <class Body>
void for_each_row(const ClassTargets& targets, Body body) {
  const auto run_rows = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  };
  parallel_for(targets.rows, grain / std::max<std::int64_t>(targets.classes, 1) + 1, run_rows);
}

}  // namespace

std::optional<std::int64_t> first_bad_target(const ClassTargets& targets) {
  for (std::int64_t row = 0; row < targets.rows; ++row) {
    const std::int64_t t = targets.at(row);
    if (t != targets.ignore_index && (t < 0 || t >= targets.classes)) return row;
  }
  return std::nullopt;
}

double kept_weight(const ClassTargets& targets, DType dtype) {
  return visit_floating(dtype, [&](auto zero) {
    const Weights<decltype(zero)> weights(targets);
    double total = 0;
    for (std::int64_t row = 0; row < targets.rows; ++row)
      if (!targets.ignores(row)) total += weights[targets.at(row)];
    return total;
  });
}

void cross_entropy(const ClassTargets& targets, const View& logits, const View& loss) {
  visit_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(targets);
    const double s = targets.smoothing, spread = s / static_cast<double>(targets.classes);
    for_each_row(targets, [&](std::int64_t row) {
      T& row_loss = loss.as<T>()[row];
      row_loss = T(0);
      if (targets.ignores(row)) return;
      const T* x = logits.as<const T>() + row * logits.strides[0];
      const RowSums<T> sums = sums_of_row(x, weights.data(), targets.classes, s != 0);
      const std::int64_t t = targets.at(row);
      const double log_total = std::log(sums.total);
      const double minus_lp =
          (static_cast<double>(sums.max) - static_cast<double>(x[t])) + log_total;
      double value = (1 - s) * weights[t] * minus_lp;
      if (s != 0) value += spread * (weights.total() * log_total - sums.smooth);
      row_loss = static_cast<T>(value);
    });
  });
}

void cross_entropy_backward(const ClassTargets& targets, const View& logits, const View& g,
                            double divisor, const View& dlogits) {
  visit_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(targets);
    const std::int64_t g_step = g.shape.rank() == 0 ? 0 : g.strides[0];
    for_each_row(targets, [&](std::int64_t row) {
      T* dx = dlogits.as<T>() + row * targets.classes;
      if (targets.ignores(row)) {
        std::fill(dx, dx + targets.classes, T(0));
        return;
      }
      const double row_g = static_cast<double>(g.as<const T>()[row * g_step]) / divisor;
      backward_row(targets, weights, row, logits.as<const T>() + row * logits.strides[0], row_g,
                   dx);
    });
  });
}

void nll(const ClassTargets& targets, const View& x, const View& loss) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(targets);
    for (std::int64_t row = 0; row < targets.rows; ++row) {
      T& row_loss = loss.as<T>()[row];
      row_loss = T(0);
      if (targets.ignores(row)) continue;
      const std::int64_t t = targets.at(row);
      const T lp = x.as<const T>()[row * x.strides[0] + t * x.strides[1]];
      row_loss = -static_cast<T>(weights[t]) * lp;
    }
  });
}

void target_distribution(const ClassTargets& targets, double factor, const View& q) {
  visit_floating(q.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Weights<T> weights(targets);
    const double spread = factor * targets.smoothing / static_cast<double>(targets.classes);
    for_each_row(targets, [&](std::int64_t row) {
      T* out = q.as<T>() + row * targets.classes;
      const bool ignored = targets.ignores(row);
      for (std::int64_t c = 0; c < targets.classes; ++c)
        out[c] = ignored ? T(0) : static_cast<T>(spread * weights[c]);
      if (ignored) return;
      const std::int64_t t = targets.at(row);
      const double sharp = factor * (1 - targets.smoothing) * weights[t];
      out[t] = static_cast<T>(sharp + spread * weights[t]);
    });
  });
}

}  // namespace tapehead::kernels
