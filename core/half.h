// The two-byte floating types, as storage: numbers are packed into them and unpacked again, and no
// arithmetic is done in them.
//
//     bf16   1 sign, 8 exponent and 7 fraction bits: the upper half of a float
//     f16    1 sign, 5 exponent and 10 fraction bits: IEEE 754 binary16
//
// Packing rounds to nearest, ties to even, from float and from double alike (never twice); what is
// too large becomes an infinity, NaN stays NaN, subnormals are kept. Unpacking is exact.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace tapehead {
namespace half {

/// The float nearest to `value` towards which no second rounding can go wrong: when the value is
/// not a float, the neighbour with an odd last bit ("round to odd"), which is never halfway between
/// two numbers of a narrower type. (Boldo and Melquiond, "Emulation of FMA and correctly rounded
/// sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008.)
inline float rounded_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double back = static_cast<double>(nearest);
  if (back == value || value != value || (bits & 1u) != 0) return nearest;
  const bool too_large = (value < 0 ? -back : back) > (value < 0 ? -value : value);
  return std::bit_cast<float>(too_large ? bits - 1 : bits + 1);
}

inline std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x40u;  // quiet, so that no fraction bit need remain
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t f16_bits(float value) {
  constexpr std::uint32_t infinity = 0x7f800000u;
  constexpr std::uint32_t too_large = (127u + 16u) << 23;        // 2^16
  constexpr std::uint32_t smallest_normal = (127u - 14u) << 23;  // 2^-14
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits & 0x80000000u, size = bits ^ sign;
  // A normal result: the exponent's bias changes by 112, and 13 fraction bits are rounded away. A
  // carry goes on into the exponent, and from the largest number to infinity, as it should.
  const std::uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
  // A subnormal result, a multiple of 2^-24: adding 0.5, whose last bit is 2^-24, rounds to one.
  constexpr auto half_bits = std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f);
  const std::uint32_t special = size > infinity ? 0x7e00u : 0x7c00u;
  const std::uint32_t packed = size >= too_large        ? special
                               : size < smallest_normal ? small - half_bits
                                                        : normal;
  return static_cast<std::uint16_t>(packed | sign >> 16);
}

inline float f16_value(std::uint16_t half_bits) {
  const auto bits = static_cast<std::uint32_t>(half_bits);
  const std::uint32_t sign = (bits & 0x8000u) << 16, size = (bits & 0x7fffu) << 13;
  const bool special = size >= 0x1fu << 23, subnormal = size < 1u << 23;
  // A subnormal has no leading one: it is read with one, which is then taken away.
  const float small = std::bit_cast<float>(size + (113u << 23)) - 0x1p-14f;
  const std::uint32_t normal = size + ((special ? 224u : 112u) << 23);
  return std::bit_cast<float>((subnormal ? std::bit_cast<std::uint32_t>(small) : normal) | sign);
}

}  // namespace half

/// One element, 16 bits, which conversions pack and unpack.
template <std::uint16_t (*pack)(float), float (*unpack)(std::uint16_t)>
class Half {
 public:
  Half() = default;
  /// Integers go by way of double.
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Half(T value) {
    if constexpr (std::same_as<T, float>) bits_ = pack(value);
    else bits_ = pack(half::rounded_to_odd(static_cast<double>(value)));
  }
  /// By way of float.
  template <std::uint16_t (*other_pack)(float), float (*other_unpack)(std::uint16_t)>
  explicit Half(Half<other_pack, other_unpack> other) : Half(static_cast<float>(other)) {}

  /// The number, by way of float.
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit operator T() const { return static_cast<T>(unpack(bits_)); }
  /// As floats: a NaN equals nothing, and -0 equals 0.
  friend bool operator==(Half a, Half b) { return unpack(a.bits_) == unpack(b.bits_); }

 private:
  std::uint16_t bits_;
};

/// An element of DType::bf16.
using BFloat16 = Half<half::bf16_bits, half::bf16_value>;
/// An element of DType::f16.
using Float16 = Half<half::f16_bits, half::f16_value>;

}  // namespace tapehead
