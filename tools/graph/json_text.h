// JSON as text. Bytes that are not UTF-8, which names may hold, become U+FFFD. Internal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tapehead::graph {

/// On one line.
inline std::string json_line(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Indented, with a line end after it: as reports are printed.
inline std::string json_report(const nlohmann::json& value) {
  return value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace tapehead::graph
