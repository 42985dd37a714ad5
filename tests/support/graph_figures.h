// Figures of a graph.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>

namespace tapehead::tests {

/// Floating-point operations of all nodes, recomputed ones too.
inline std::int64_t flops(const Graph& graph) {
  std::int64_t sum = 0;
  for (const Graph::Node& node : graph.nodes) sum += node.flops;
  return sum;
}

}  // namespace tapehead::tests
