#include <tapehead/ops/kernels/multiversion.h>
#include <tapehead/ops/kernels/random.h>

#include <cmath>
#include <numbers>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t chunk = 1024;          // words drawn at once: they stay in the nearest cache
constexpr std::int64_t chunks_a_thread = 16;  // fewer do not pay for a second thread

// Calls f(first, count, words) for stretches that cover the stream's next `total` words: words[i]
// is word first + i. `first` is a multiple of chunk.
template <class F>
void for_each_chunk(RandomState state, std::int64_t total, F f) {
  parallel_for((total + chunk - 1) / chunk, chunks_a_thread, [&](std::int64_t begin, auto end) {
    for (std::int64_t first = begin * chunk; first < std::min(end * chunk, total); first += chunk) {
      const std::int64_t count = std::min(chunk, total - first);
      std::uint32_t words[chunk];
      const std::uint64_t block = (state.offset + static_cast<std::uint64_t>(first)) / 4;
      for (std::int64_t i = 0; i < count; i += 4) {
        const auto four = philox(state.key, block + static_cast<std::uint64_t>(i / 4));
        std::copy(four.begin(), four.end(), words + i);
      }
      f(first, count, static_cast<const std::uint32_t*>(words));
    }
  });
}

// low + (high - low) * u, for a u that T holds exactly. The fused multiply-add is asked for by
// name: left to the compiler, it would be there on some machines and not on others, and the last
// bit would differ. As it may be a slow call, the numbers of rand() go without.
template <class T>
T scaled(double u, double low, double high) {
  if (low == 0 && high == 1) return static_cast<T>(u);
  const T value = static_cast<T>(std::fma(high - low, u, low));
  return value < static_cast<T>(high) ? value
                                      : std::nextafter(static_cast<T>(high), static_cast<T>(low));
}

// The upper half of the 128-bit product.
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
  const std::uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xFFFFFFFF)) >> 32);
}

template <class T>
TAPEHEAD_MULTIVERSION void dropout_run(T* y, std::int64_t dy, const T* x, std::int64_t dx,
                                       const std::uint32_t* words, std::uint32_t last_dropped,
                                       T scale, std::int64_t count) {
  if (dy == 1 && dx == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = words[i] > last_dropped ? x[i] * scale : T(0);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      y[i * dy] = words[i] > last_dropped ? x[i * dx] * scale : T(0);
  }
}

}  // namespace

void uniform(const View& y, RandomState state, double low, double high) {
  const std::int64_t count = numel(y.shape);
  if (y.dtype == DType::f32)
    return for_each_chunk(state, count, [&](std::int64_t first, auto words, const auto* word) {
      float* to = y.as<float>() + first;
      for (std::int64_t i = 0; i < words; ++i) to[i] = scaled<float>(unit24(word[i]), low, high);
    });
  for_each_chunk(state, 2 * count, [&](std::int64_t first, auto words, const auto* word) {
    double* to = y.as<double>() + first / 2;
    for (std::int64_t i = 0; i < words; i += 2)
      to[i / 2] = scaled<double>(unit53(word[i], word[i + 1]), low, high);
  });
}

void normal(const View& y, RandomState state) {
  const std::int64_t count = numel(y.shape), pairs = (count + 1) / 2;
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_chunk(state, 4 * pairs, [&](std::int64_t first, auto words, const auto* word) {
      for (std::int64_t i = 0; i < words; i += 4) {
        const double u = 1 - unit53(word[i], word[i + 1]);  // in (0, 1]: its logarithm is finite
        const double radius = std::sqrt(-2 * std::log(u));
        const double angle = 2 * std::numbers::pi * unit53(word[i + 2], word[i + 3]);
        const std::int64_t at = (first + i) / 2;
        y.as<T>()[at] = static_cast<T>(radius * std::cos(angle));
        if (at + 1 < count) y.as<T>()[at + 1] = static_cast<T>(radius * std::sin(angle));
      }
    });
  });
}

void integers(const View& y, RandomState state, std::int64_t low, std::uint64_t range) {
  for_each_chunk(state, 2 * numel(y.shape), [&](std::int64_t first, auto words, const auto* word) {
    std::int64_t* to = y.as<std::int64_t>() + first / 2;
    for (std::int64_t i = 0; i < words; i += 2) {
      const std::uint64_t bits = static_cast<std::uint64_t>(word[i]) << 32 | word[i + 1];
      const std::uint64_t step = range == 0 ? bits : multiply_high(bits, range);
      to[i / 2] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + step);
    }
  });
}

void dropout(const View& y, const View& x, RandomState state, std::uint32_t last_dropped,
             double scale) {
  const auto loop = merge_dims<2>(y.shape, {&y.strides, &x.strides});
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_chunk(state, numel(y.shape), [&](std::int64_t first, auto count, const auto* words) {
      for_each_run(loop, first, first + count, [&](const auto& offsets, std::int64_t run) {
        dropout_run(y.as<T>() + offsets[0], loop.inner_stride(0), x.as<const T>() + offsets[1],
                    loop.inner_stride(1), words, last_dropped, static_cast<T>(scale), run);
        words += run;
      });
    });
  });
}

}  // namespace tapehead::kernels
