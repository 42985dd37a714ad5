// Rows of a graph by the ids that other rows hold.
#pragma once

#include <tapehead/core/graph.h>

#include <cstddef>
#include <cstdint>

namespace tapehead::graph {

inline std::size_t at(std::int64_t id) { return static_cast<std::size_t>(id); }

inline const Graph::Node& node_of(const Graph& graph, const Graph::SavedSlot& slot) {
  return graph.nodes[at(slot.node)];
}

inline const Graph::Value& value_of(const Graph& graph, const Graph::SavedSlot& slot) {
  return graph.values[at(slot.value)];
}

}  // namespace tapehead::graph
