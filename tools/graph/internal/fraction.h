// Exact fractions of 128 bits, for closed forms and formulas.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

namespace tapehead::graph {

/// In lowest terms, the denominator positive. Arithmetic that leaves 128 bits throws Overflow.
class Fraction {
 public:
  __extension__ using Wide = __int128;
  struct Overflow {};

  /// The denominator is not 0.
  Fraction(Wide numerator = 0, Wide denominator = 1) {
    const Wide divisor = common_divisor(numerator, denominator) * (denominator < 0 ? -1 : 1);
    numerator_ = numerator / divisor;
    denominator_ = denominator / divisor;
  }

  Wide numerator() const { return numerator_; }
  Wide denominator() const { return denominator_; }
  bool is_whole() const { return denominator_ == 1; }

  friend Fraction operator*(const Fraction& a, const Fraction& b) {
    const Fraction left(a.numerator_, b.denominator_), right(b.numerator_, a.denominator_);
    return {product(left.numerator_, right.numerator_),
            product(left.denominator_, right.denominator_)};
  }
  /// b is not 0.
  friend Fraction operator/(const Fraction& a, const Fraction& b) {
    return a * Fraction(b.denominator_, b.numerator_);
  }
  friend Fraction operator+(const Fraction& a, const Fraction& b) {
    const Wide divisor = common_divisor(a.denominator_, b.denominator_);
    const Wide a_factor = b.denominator_ / divisor, b_factor = a.denominator_ / divisor;
    return {sum(product(a.numerator_, a_factor), product(b.numerator_, b_factor)),
            product(a.denominator_, a_factor)};
  }
  friend Fraction operator-(const Fraction& a, const Fraction& b) {
    return a + Fraction(-b.numerator_, b.denominator_);
  }

 private:
  static constexpr Wide largest = ~(Wide{1} << 127);

  static Wide absolute(Wide a) { return a < 0 ? -a : a; }
  static Wide product(Wide a, Wide b) {
    if (a != 0 && absolute(b) > largest / absolute(a)) throw Overflow{};
    return a * b;
  }
  static Wide sum(Wide a, Wide b) {
    if (b > 0 ? a > largest - b : a < -largest - b) throw Overflow{};
    return a + b;
  }
  static Wide common_divisor(Wide a, Wide b) {
    while (b != 0) a = std::exchange(b, a % b);
    return absolute(a);
  }

  Wide numerator_, denominator_;
};

/// The number, where 63 bits and a sign hold it; else Overflow.
inline std::int64_t narrowed(Fraction::Wide value) {
  constexpr Fraction::Wide largest = std::numeric_limits<std::int64_t>::max();
  if (value > largest || value < -largest) throw Fraction::Overflow{};
  return static_cast<std::int64_t>(value);
}

}  // namespace tapehead::graph
