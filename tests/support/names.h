// Names of what stands in a list, in its order.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/nn/named_tensor.h>

#include <string>
#include <vector>

namespace tapehead::tests {

inline std::vector<std::string> names_of(const nn::StateDict& state) {
  std::vector<std::string> names;
  for (const nn::NamedTensor& entry : state) names.push_back(entry.name);
  return names;
}

/// The operations of the graph's nodes.
inline std::vector<std::string> operations(const Graph& graph) {
  std::vector<std::string> names;
  for (const Graph::Node& node : graph.nodes) names.push_back(node.operation);
  return names;
}

}  // namespace tapehead::tests
