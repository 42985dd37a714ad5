// Polynomials in named sizes, exact: what a closed form of bytes or operations is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tapehead::graph {

/// A polynomial with exact coefficients. An immutable value.
class Polynomial {
 public:
  /// numerator / denominator times the sizes, each to its exponent. In lowest terms, the
  /// denominator positive.
  struct Term {
    std::int64_t numerator = 0;    ///< of the coefficient
    std::int64_t denominator = 1;  ///< of the coefficient
    std::vector<int> exponents;  ///< one for each name
    bool operator==(const Term&) const = default;
  };

  /// Terms must have distinct exponents and no zero among their numerators. They are sorted: the
  /// highest total degree first, and of one degree those with the earlier names.
  Polynomial(std::vector<std::string> names, std::vector<Term> terms);

  /// Of the sizes.
  const std::vector<std::string>& names() const { return names_; }
  /// Sorted; none for 0.
  const std::vector<Term>& terms() const { return terms_; }

  /// The value for these sizes, one for each name. ValueError: another number of sizes, a value
  /// that is not whole, or one that does not fit in 64 bits, also on the way.
  std::int64_t operator()(std::span<const std::int64_t> sizes) const;

  bool operator==(const Polynomial&) const = default;

 private:
  std::vector<std::string> names_;
  std::vector<Term> terms_;
};

/// "4*B*h*T^2 + 20*B*T*d + T^2"; "0" without terms.
std::string to_string(const Polynomial& polynomial);

/// The nodes of a grid: of each name the sizes that the grid has, all distinct.
struct Axis {
  std::string name;                 ///< of a size
  std::vector<std::int64_t> nodes;  ///< its values
};

/// The only polynomial that has the degree (number of nodes - 1) or less in each name and the given
/// values on the grid, the last axis running fastest. Nothing when a coefficient does not fit in 64
/// bits, or one on the way not in 128. ValueError: an axis has no nodes or one of them twice, or
/// there is not one value for each point of the grid.
std::optional<Polynomial> interpolate(std::span<const Axis> axes,
                                      std::span<const std::int64_t> values);

}  // namespace tapehead::graph
