// Paths of modules: "layers.0.self_attn".
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// What the empty path of a module is called: that of an unnamed root module's own operations, and
/// of those outside any module.
inline constexpr std::string_view root_name = "(root)";

/// Paths deeper than this end in one name that holds the rest, dots and all. It bounds the depth of
/// every recursion over a tree of modules, whatever a file says.
inline constexpr std::size_t max_module_depth = 32;

/// The names in a module's path, none of them for the empty one.
std::vector<std::string_view> split_path(std::string_view path);

/// Whether the module `path` is the module `other` or lies in it, as all do in the empty path.
bool lies_in(std::string_view path, std::string_view other);

}  // namespace tapehead::graph
