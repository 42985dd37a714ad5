// Checks of options that modules and optimizers share. All throw ValueError that opens with
// `operation` and names the option. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::nn {

void check_positive(std::string_view operation, std::string_view name, std::int64_t value);
/// In [0, 1].
void check_probability(std::string_view operation, std::string_view name, double value);
void check_not_negative(std::string_view operation, std::string_view name, std::int64_t value);
/// A finite number that is at least 0.
void check_not_negative(std::string_view operation, std::string_view name, double value);

}  // namespace tapehead::nn
