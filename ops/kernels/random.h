// Filling with random numbers, and dropout. Every number is a function of the stream's key and of
// its own position alone, so the number of threads does not matter.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/view.h>

#include <cmath>
#include <cstdint>

namespace tapehead::kernels {

/// The top 24 bits of a word as a number in [0, 1): each is a float.
inline double unit24(std::uint32_t word) { return (word >> 8) * 0x1p-24; }
/// 53 bits of two words as a number in [0, 1).
inline double unit53(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((static_cast<std::uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

/// 32-bit words that an element takes from the stream.
inline std::uint64_t words_of_uniform(DType dtype) { return dtype == DType::f64 ? 2 : 1; }
inline constexpr std::uint64_t words_of_normal_pair = 4;
inline constexpr std::uint64_t words_of_integer = 2;

/// y (row-major, floating) = low + (high - low) * u, never high itself unless low is.
void uniform(const View& y, RandomState state, double low, double high);

/// y (row-major, floating) = standard normal numbers: Box and Muller's transform of two uniforms
/// into two normals ("A note on the generation of random normal deviates", 1958), in double.
void normal(const View& y, RandomState state);

/// y (row-major, i64) = low + floor(range * u / 2^64) for 64 random bits u; range 0 stands for
/// 2^64. No value is more than range / 2^64 likelier than another.
void integers(const View& y, RandomState state, std::int64_t low, std::uint64_t range);

/// The last word that drops its element with probability p > 0: words up to p * 2^32.
inline std::uint32_t last_dropped_word(double p) {
  return static_cast<std::uint32_t>(std::ceil(p * 0x1p32) - 1);
}

/// y = x * scale where the element's word is above `last_dropped`, else 0 (whatever x is). Elements
/// take words in row-major order. One shape and floating dtype; y may be x.
void dropout(const View& y, const View& x, RandomState state, std::uint32_t last_dropped,
             double scale);

}  // namespace tapehead::kernels
