// The saved slots that a question of recomputation means.
#pragma once

#include <tapehead/core/graph.h>

#include <string>
#include <vector>

namespace tapehead::graph {

/// By slot of graph.saved.
struct ChosenSlots {
  std::vector<bool> chosen;  ///< whether it is to be made again
  std::vector<bool> stays;   ///< whether a pattern matches it, but no operation made the value
};

/// The slots whose label (labels.h), with or without its numbers, matches one of the patterns as a
/// whole. Recomputed nodes and packed slots are left out. ValueError: a pattern matches nothing, or
/// only slots whose value is no result of an operation.
ChosenSlots choose_slots(const Graph& graph, const std::vector<std::string>& patterns);

}  // namespace tapehead::graph
