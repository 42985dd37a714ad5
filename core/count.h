// Arithmetic of counts, which are not negative. A result that does not fit in 63 bits becomes
// largest_count, which so stands for "that or more".
#pragma once

#include <cstdint>
#include <limits>

namespace tapehead {

/// The largest count that is told apart: "that or more".
constexpr std::int64_t largest_count = std::numeric_limits<std::int64_t>::max();

/// a + b
constexpr std::int64_t count_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? largest_count : sum;
}

/// The product of all. A factor of 0 makes 0 of it, however large the others are.
template <class... Counts>
constexpr std::int64_t count_product(Counts... counts) {
  if (((counts == 0) || ...)) return 0;
  std::int64_t product = 1;
  const bool overflows = (__builtin_mul_overflow(product, std::int64_t{counts}, &product) || ...);
  return overflows ? largest_count : product;
}

}  // namespace tapehead
