// Patterns with which reports, assertions and commands choose by name: "*" stands for any text and
// "?" for one character. Where several are given, all must match, from end to end:
//
//     name        of a saved value: the slot, "logits"; with its operation, "cross_entropy.logits",
//                 and also as reports write it, "layers.0.self_attn matmul#2.b"; or the value's own
//     operation   "softmax"; with its number, "softmax#2", the second in its module
//     module      a module with all that lies in it, as matches_module() says
#pragma once

#include <optional>
#include <string_view>

namespace tapehead::graph {

/// Whether `pattern` occurs in `name`.
bool matches(std::string_view pattern, std::string_view name);

/// Whether `pattern` is `name` from end to end.
bool matches_whole(std::string_view pattern, std::string_view name);

/// The shortest of `path` and the paths of the modules that it lies in that `pattern` is from end
/// to end: "layers.1" of "layers.1.norm1" for "layers.?". "(root)" stands for the empty path,
/// which "*" matches too and which no other lies in.
std::optional<std::string_view> matching_module(std::string_view pattern, std::string_view path);

/// Whether there is one: whether `path` is a module that `pattern` means, or lies in one.
bool matches_module(std::string_view pattern, std::string_view path);

}  // namespace tapehead::graph
