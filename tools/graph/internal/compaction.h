// Removing operations from a graph.
#pragma once

#include <tapehead/core/graph.h>

#include <vector>

namespace tapehead::graph {

/// Removes the nodes that are marked, the storages that are marked, and the values on these, and
/// numbers the rest anew. Slots, events and other nodes must not name what goes; a step's or a
/// value's node that goes becomes -1.
void drop_nodes(Graph& graph, const std::vector<bool>& nodes, const std::vector<bool>& storages);

}  // namespace tapehead::graph
