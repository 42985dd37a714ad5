// Patterns with which reports and commands choose by name.
#pragma once

#include <string_view>

namespace tapehead::graph {

/// Whether `pattern` occurs in `name`; "*" stands for any text and "?" for one character.
bool matches(std::string_view pattern, std::string_view name);

/// Whether `pattern` is `name` from end to end.
bool matches_whole(std::string_view pattern, std::string_view name);

/// What the empty path of a module is called: that of an unnamed root module's own operations, and
/// of those outside any module.
inline constexpr std::string_view root_name = "(root)";

/// @{
/// As matches() and matches_whole(), of a module's path. root_name stands for the empty path, which
/// "*" matches too.
bool matches_module(std::string_view pattern, std::string_view path);
bool matches_whole_module(std::string_view pattern, std::string_view path);
/// @}

}  // namespace tapehead::graph
