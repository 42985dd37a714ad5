// Patterns with which reports and commands choose by name.
#pragma once

#include <string_view>

namespace tapehead::graph {

/// Whether `pattern` occurs in `name`; "*" stands for any text and "?" for one character.
bool matches(std::string_view pattern, std::string_view name);

/// Whether `pattern` is `name` from end to end.
bool matches_whole(std::string_view pattern, std::string_view name);

}  // namespace tapehead::graph
