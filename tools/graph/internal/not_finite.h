// Numbers that JSON has no word for, as the strings that stand for them.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace tapehead::graph {

/// "nan", "inf" or "-inf" of a number that is not finite.
inline std::string_view name_of_not_finite(double number) {
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

/// The number of such a name; nothing for another text.
inline std::optional<double> not_finite_of(std::string_view name) {
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  return {};
}

}  // namespace tapehead::graph
