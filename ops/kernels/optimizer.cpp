#include <tapehead/ops/kernels/multiversion.h>
#include <tapehead/ops/kernels/optimizer.h>

#include <array>
#include <cmath>

namespace tapehead::kernels {
namespace {

// Elements for each thread that repay starting it.
constexpr std::int64_t grain = 8192;

// The hyperparameters in the parameter's type, so that float loops stay float; what does not depend
// on the element is computed once, in double.
template <class T>
struct Sgd {
  explicit Sgd(const SgdStep& step)
      : lr(static_cast<T>(step.lr)),
        momentum(static_cast<T>(step.momentum)),
        weight_decay(static_cast<T>(step.weight_decay)),
        from_g(step.nesterov ? T(1) : T(0)),
        from_buffer(step.nesterov ? static_cast<T>(step.momentum) : T(1)) {}

  T lr, momentum, weight_decay;
  T from_g, from_buffer;  // the direction is made of
};

template <class T>
struct Adam {
  explicit Adam(const AdamStep& step)
      : keep(static_cast<T>(step.decoupled ? 1 - step.lr * step.weight_decay : 1)),
        weight_decay(static_cast<T>(step.decoupled ? 0 : step.weight_decay)),
        beta1(static_cast<T>(step.beta1)),
        rest1(static_cast<T>(1 - step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        rest2(static_cast<T>(1 - step.beta2)),
        step_size(static_cast<T>(step.lr / step.correction1)),
        root_scale(static_cast<T>(1 / std::sqrt(step.correction2))),
        eps(static_cast<T>(step.eps)) {}

  T keep, weight_decay, beta1, rest1, beta2, rest2, step_size, root_scale, eps;
};

template <class T>
TAPEHEAD_INLINE void update(const Sgd<T>& s, T& p, T g) {
  p -= s.lr * (g + s.weight_decay * p);
}

template <class T>
TAPEHEAD_INLINE void update(const Sgd<T>& s, T& p, T g, T& buffer) {
  g += s.weight_decay * p;
  buffer = s.momentum * buffer + g;
  p -= s.lr * (s.from_g * g + s.from_buffer * buffer);
}

template <class T>
TAPEHEAD_INLINE void update(const Adam<T>& s, T& p, T g, T& m, T& v) {
  g += s.weight_decay * p;
  m = s.beta1 * m + s.rest1 * g;
  v = s.beta2 * v + s.rest2 * g * g;
  p = s.keep * p - s.step_size * m / (std::sqrt(v) * s.root_scale + s.eps);
}

template <class T>
TAPEHEAD_MULTIVERSION void run(const Sgd<T>& s, T* p, const T* g, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) update(s, p[i], g[i]);
}

template <class T>
TAPEHEAD_MULTIVERSION void run(const Sgd<T>& s, T* p, const T* g, T* buffer, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) update(s, p[i], g[i], buffer[i]);
}

template <class T>
TAPEHEAD_MULTIVERSION void run(const Adam<T>& s, T* p, const T* g, T* m, T* v, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) update(s, p[i], g[i], m[i], v[i]);
}

// Walks p, g and the state tensors together: runs that are contiguous in all go to the vector loop,
// others element by element.
template <class T, class Step, class... State>
void for_parameter(const Step& step, const View& p, const View& g, const State&... state) {
  constexpr std::size_t operands = 2 + sizeof...(State);
  const std::array<const Strides*, operands> strides{&p.strides, &g.strides, &state.strides...};
  const auto loop = merge_dims<operands>(p.shape, strides);
  bool contiguous = true;
  for (std::size_t k = 0; k < operands; ++k) contiguous = contiguous && loop.inner_stride(k) == 1;
  parallel_runs(loop, grain, [&](const auto& at, std::int64_t count) {
    const auto visit = [&]<std::size_t... K>(std::index_sequence<K...>) {
      if (contiguous) {
        run(step, p.as<T>() + at[0], g.as<const T>() + at[1],
            (state.template as<T>() + at[2 + K])..., count);
        return;
      }
      for (std::int64_t i = 0; i < count; ++i)
        update(step, p.as<T>()[at[0] + i * loop.inner_stride(0)],
               g.as<const T>()[at[1] + i * loop.inner_stride(1)],
               state.template as<T>()[at[2 + K] + i * loop.inner_stride(2 + K)]...);
    };
    visit(std::make_index_sequence<sizeof...(State)>());
  });
}

template <class T>
TAPEHEAD_MULTIVERSION double squares_of_run(const T* x, std::int64_t stride, std::int64_t count) {
  double sum = 0;
  if (stride == 1) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(x[i * stride]) * static_cast<double>(x[i * stride]);
  }
  return sum;
}

}  // namespace

void sgd(const View& p, const View& g, const SgdStep& step) {
  visit_floating(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_parameter<T>(Sgd<T>(step), p, g);
  });
}

void sgd_with_momentum(const View& p, const View& g, const View& buffer, const SgdStep& step) {
  visit_floating(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_parameter<T>(Sgd<T>(step), p, g, buffer);
  });
}

void adam(const View& p, const View& g, const View& m, const View& v, const AdamStep& step) {
  visit_floating(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_parameter<T>(Adam<T>(step), p, g, m, v);
  });
}

double sum_of_squares(const View& x) {
  // Fixed chunks, so that the order of the sums does not depend on the threads.
  constexpr std::int64_t chunks = 64;
  std::array<double, chunks> sums{};
  const auto loop = merge_dims<1>(x.shape, {&x.strides});
  const std::int64_t count = numel(x.shape);
  const std::int64_t length = (count + chunks - 1) / chunks;
  const std::int64_t chunks_a_thread = length == 0 ? chunks : (grain + length - 1) / length;
  parallel_for(chunks, chunks_a_thread, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t begin = std::min(chunk * length, count);
      const std::int64_t end = std::min(begin + length, count);
      double& sum = sums[static_cast<std::size_t>(chunk)];
      visit_floating(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        for_each_run(loop, begin, end, [&](const auto& at, std::int64_t run_length) {
          sum += squares_of_run(x.as<const T>() + at[0], loop.inner_stride(0), run_length);
        });
      });
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace tapehead::kernels
