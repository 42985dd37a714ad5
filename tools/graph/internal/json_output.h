// JSON that is written: as text, and sums that several reports give. Bytes that are not UTF-8,
// which names may hold, become U+FFFD.
#pragma once

#include <tapehead/graph/timeline.h>

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

/// {"parameter": 128, ...}: the bytes of every category.
inline nlohmann::json json_of(const BytesByCategory& bytes) {
  nlohmann::json all = nlohmann::json::object();
  for (std::size_t c = 0; c < category_count; ++c)
    all[std::string(to_string(categories[c]))] = bytes[c];
  return all;
}

}  // namespace tapehead::graph
