// Folding a run of values into one: the inner loop of every reduction. The values are dealt out to
// a fixed number of lanes, which vectorise and are folded pairwise, block by block: little rounding
// error, and an order that depends on nothing but the count. For use inside TAPEHEAD_MULTIVERSION
// functions.
#pragma once

#include <tapehead/ops/kernels/multiversion.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace tapehead::kernels {

inline constexpr std::int64_t fold_lanes = 32;
/// Elements after which the lanes are folded and join the total: 16 additions a lane, so that float
/// lanes lose little, and a double total does not lose it again.
inline constexpr std::int64_t fold_block = 512;

// NaN if either is. Two selections in a row: GCC turns a single one with the condition
// "b > a or b is NaN" into branches and then does not vectorise the loop.
template <class T>
TAPEHEAD_INLINE T larger(T a, T b) {
  const T larger_or_a = b > a ? b : a;
  return b != b ? b : larger_or_a;
}
template <class T>
TAPEHEAD_INLINE T smaller(T a, T b) {
  const T smaller_or_a = b < a ? b : a;
  return b != b ? b : smaller_or_a;
}

// The lower half of 2 * half lanes joined with the upper, then the same of that half. Unrolled:
// loops of a few rounds would cost more than their work.
template <std::int64_t half, class Lane, class Join>
TAPEHEAD_INLINE Lane fold_pairs(Lane* lanes, Join join) {
#pragma omp simd
  for (std::int64_t k = 0; k < half; ++k) lanes[k] = join(lanes[k], lanes[k + half]);
  if constexpr (half > 1) return fold_pairs<half / 2>(lanes, join);
  else return lanes[0];
}

/// join over term(0), ..., term(count - 1) in lanes; at most fold_block terms.
template <class Lane, class Term, class Join>
TAPEHEAD_INLINE Lane fold_in_lanes(std::int64_t count, Lane identity, Term term, Join join) {
  Lane lanes[fold_lanes];
  for (std::int64_t k = 0; k < fold_lanes; ++k) lanes[k] = identity;
  std::int64_t i = 0;
  for (; i + fold_lanes <= count; i += fold_lanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < fold_lanes; ++k)
      lanes[k] = join(lanes[k], static_cast<Lane>(term(i + k)));
  }
  for (std::int64_t k = 0; i + k < count; ++k)
    lanes[k] = join(lanes[k], static_cast<Lane>(term(i + k)));
  return fold_pairs<fold_lanes / 2>(lanes, join);
}

/// join over term(0), ..., term(count - 1), in lanes of type Lane, with a total of type Total.
/// `identity` does not change what it joins. `term` may also store what it computed at its index.
template <class Lane, class Total, class Term, class Join>
TAPEHEAD_INLINE Total fold_run(std::int64_t count, Lane identity, Term term, Join join) {
  Total total = static_cast<Total>(identity);
  if (count < fold_lanes) {
    for (std::int64_t i = 0; i < count; ++i) total = join(total, static_cast<Total>(term(i)));
    return total;
  }
  for (std::int64_t begin = 0; begin < count; begin += fold_block) {
    const std::int64_t n = std::min(fold_block, count - begin);
    const auto term_here = [=](std::int64_t i) __attribute__((always_inline)) {
      return term(begin + i);
    };
    total = join(total, static_cast<Total>(fold_in_lanes(n, identity, term_here, join)));
  }
  return total;
}

/// Sum of term(0), ..., term(count - 1), in lanes of type Lane.
template <class Lane, class Term>
TAPEHEAD_INLINE double sum_run(std::int64_t count, Term term) {
  return fold_run<Lane, double>(
      count, Lane(0), term, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}

/// Two sums in one walk over what they both read, each as sum_run gives it.
template <class Lane, class First, class Second>
TAPEHEAD_INLINE std::array<double, 2> sum_runs(std::int64_t count, First first, Second second) {
  if (count < fold_lanes) return {sum_run<Lane>(count, first), sum_run<Lane>(count, second)};
  const auto add = [](Lane a, Lane b) __attribute__((always_inline)) { return a + b; };
  std::array<double, 2> totals{};
  for (std::int64_t begin = 0; begin < count; begin += fold_block) {
    const std::int64_t end = std::min(begin + fold_block, count);
    Lane a[fold_lanes] = {}, b[fold_lanes] = {};
    std::int64_t i = begin;
    for (; i + fold_lanes <= end; i += fold_lanes) {
#pragma omp simd
      for (std::int64_t k = 0; k < fold_lanes; ++k) {
        a[k] += static_cast<Lane>(first(i + k));
        b[k] += static_cast<Lane>(second(i + k));
      }
    }
    for (std::int64_t k = 0; i + k < end; ++k) {
      a[k] += static_cast<Lane>(first(i + k));
      b[k] += static_cast<Lane>(second(i + k));
    }
    totals[0] += static_cast<double>(fold_pairs<fold_lanes / 2>(a, add));
    totals[1] += static_cast<double>(fold_pairs<fold_lanes / 2>(b, add));
  }
  return totals;
}

/// Largest of count adjacent values, NaN if one is; -inf for none.
template <class T>
TAPEHEAD_INLINE T max_run(const T* x, std::int64_t count) {
  return fold_run<T, T>(
      count, -std::numeric_limits<T>::infinity(),
      [x](std::int64_t i) __attribute__((always_inline)) { return x[i]; },
      [](T a, T b) __attribute__((always_inline)) { return larger(a, b); });
}

}  // namespace tapehead::kernels
