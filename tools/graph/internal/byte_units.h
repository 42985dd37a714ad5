// Units in which people write amounts of memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace tapehead::graph {

/// Bytes of one "B", "KB" to "PB" (powers of 1000) or "KiB" to "PiB" (powers of 1024); 0 for what
/// is none of these.
constexpr std::int64_t bytes_of_unit(std::string_view unit) {
  if (unit == "B") return 1;
  if (unit.empty()) return 0;
  const std::size_t power = std::string_view("KMGTP").find(unit[0]);
  const bool is_binary = unit.substr(1) == "iB";
  if (power == std::string_view::npos || (!is_binary && unit.substr(1) != "B")) return 0;
  std::int64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= is_binary ? 1024 : 1000;
  return bytes;
}

}  // namespace tapehead::graph
