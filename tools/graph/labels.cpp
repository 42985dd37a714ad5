#include <tapehead/core/dtype.h>
#include <tapehead/graph/at.h>
#include <tapehead/graph/labels.h>
#include <tapehead/graph/text.h>

namespace tapehead::graph {

std::string place(std::string_view operation, std::string_view module) {
  std::string text(module);
  if (!text.empty()) text += ' ';
  return text += operation;
}

std::string slot_label(const Graph& graph, const Graph::SavedSlot& slot) {
  const Graph::Node& node = node_of(graph, slot);
  return place(node.operation, node.module) + "." + slot.slot;
}

std::string describe(const Graph::Step& step) {
  return std::string(to_string(step.phase)) +
         (step.operation.empty() ? "" : " of " + step.operation) +
         (step.module.empty() ? "" : " in " + step.module);
}

std::string place_of_step(const Graph& graph, std::int64_t index) {
  if (index < 0) return "before the first step";
  return "step " + format_count(index) + ", " +
         describe(graph.steps[static_cast<std::size_t>(index)]);
}

std::string describe(const Graph::Value& value) {
  return std::string(to_string(value.dtype)) + " " + to_string(value.shape);
}

}  // namespace tapehead::graph
