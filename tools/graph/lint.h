// Saved bytes that a small change of the model, or of an operation, would free.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// A storage or packing that need not be kept, or not whole. Only findings that free something are
/// made, and one storage makes one for each rule.
struct Finding {
  std::string_view rule = {};     ///< its name below
  std::string_view mending = {};  ///< what to do about it
  std::int64_t slot = 0;          ///< the first that keeps it, in graph.saved
  std::int64_t others = 0;        ///< further slots that keep it
  std::int64_t freed = 0;         ///< bytes by which the saved activations would shrink
  bool operator==(const Finding&) const = default;
};

/// Findings of these rules, what frees the most first. "Kept" means by slots of operations that
/// were not recomputed; but for the two about views, every slot that keeps the storage must break
/// the rule, for else mending would free nothing.
///
///   unread          No wanted gradient reads it: the slot names no input, or the graph has a
///                   backward pass in which the operation's rule did not run.
///   input_kept      An operation whose gradient its output gives (exp, tanh, softmax, ...) keeps
///                   its input, while some slot keeps that output anyway.
///   frozen_partner  An operation of several inputs keeps it for the gradients of inputs that need
///                   none: constants, or leaves that no update step names in a graph with such
///                   steps, and what was computed of these alone.
///   masked_fill     The mask of a masked_fill with -infinity whose result only softmax reads.
///                   Where the mask is, softmax's result and so its gradient are 0 already.
///   expanded_copy   The row-major copy of an expanded value. Frees its bytes, less those of what
///                   was expanded when nothing keeps that yet.
///   small_view      Views that show at most half of the storage that they keep alive. Frees the
///                   bytes that none of them shows, as if they did not overlap.
///
/// The graph comes from a tape or has passed validate().
std::vector<Finding> lint(const Graph& graph);

/// @{
/// Findings with rule, operation, slot, module, shape, bytes and mending.
std::string lint_text(const Graph& graph, const std::vector<Finding>& findings);
std::string lint_json(const Graph& graph, const std::vector<Finding>& findings);
/// @}

}  // namespace tapehead::graph
