// Values that tests spell out.
#pragma once

#include <limits>

namespace tapehead::tests {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace tapehead::tests
