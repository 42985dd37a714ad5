// Operations that move elements and compute none: views and copies, by the names of their nodes.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tapehead::graph {

/// Those of ops/views.h, ops/windows.h and ops/diagonal.h whose result lies in its input's storage;
/// reshape and flatten copy where the strides allow no view.
inline constexpr std::array<std::string_view, 11> view_operations = {
    "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute",
    "expand",  "narrow",  "slice",   "select",    "diagonal"};

inline bool is_view(std::string_view operation) {
  return std::ranges::find(view_operations, operation) != view_operations.end();
}

/// Whether the result is the input, element by element, in a storage of its own.
inline bool is_copy(std::string_view operation) {
  return operation == "clone" || operation == "contiguous";
}

}  // namespace tapehead::graph
