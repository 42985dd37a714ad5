// The saved slots that a question of recomputation means. Internal to what-if questions.
#pragma once

#include <tapehead/core/graph.h>

#include <string>
#include <vector>

namespace tapehead::graph {

/// By slot of graph.saved, whether its label (slot_label) matches one of the patterns as a whole.
/// Recomputed nodes and packed slots are left out. ValueError: a pattern matches nothing, or the
/// value is no result of an operation.
std::vector<bool> choose_slots(const Graph& graph, const std::vector<std::string>& patterns);

}  // namespace tapehead::graph
