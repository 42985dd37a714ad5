// Graphs as drawings for Graphviz.
#pragma once

#include <tapehead/core/graph.h>

#include <string>

namespace tapehead::graph {

/// The graph in the DOT language: a box for each operation, inside the clusters of its modules; an
/// ellipse for each value that no operation made; an edge from each input, and a dashed one with
/// the slot's name from each saved value to the operation that keeps it.
std::string to_dot(const Graph& graph);

}  // namespace tapehead::graph
