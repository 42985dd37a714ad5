#include <tapehead/core/dtype.h>
#include <tapehead/graph/labels.h>

namespace tapehead::graph {

std::string place(std::string_view operation, std::string_view module) {
  std::string text(module);
  if (!text.empty()) text += ' ';
  return text += operation;
}

std::string slot_label(const Graph& graph, const Graph::SavedSlot& slot) {
  const Graph::Node& node = graph.nodes[static_cast<std::size_t>(slot.node)];
  return place(node.operation, node.module) + "." + slot.slot;
}

std::string describe(const Graph::Value& value) {
  return std::string(to_string(value.dtype)) + " " + to_string(value.shape);
}

}  // namespace tapehead::graph
