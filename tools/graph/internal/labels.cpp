#include <tapehead/core/dtype.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace tapehead::graph {

std::string place(std::string_view operation, std::string_view module) {
  std::string text(module);
  if (!text.empty()) text += ' ';
  return text += operation;
}

std::string numbered(std::string_view name, std::int64_t occurrence, bool is_one_of_several) {
  return std::string(name) + (is_one_of_several ? "#" + std::to_string(occurrence) : "");
}

// For each key which one it is of its equals.
template <class Key>
std::vector<Labels::Number> Labels::numbers_of(const std::vector<Key>& keys) {
  std::map<Key, std::int64_t> counts;
  std::vector<Number> numbers;
  numbers.reserve(keys.size());
  for (const Key& key : keys) numbers.push_back({.occurrence = ++counts[key]});
  for (std::size_t i = 0; i < keys.size(); ++i) numbers[i].is_one_of_several = counts[keys[i]] > 1;
  return numbers;
}

Labels::Labels(const Graph& graph) : graph_(graph) {
  std::vector<std::tuple<std::string_view, std::string_view, bool>> nodes;
  for (const Graph::Node& node : graph.nodes)
    nodes.emplace_back(node.module, node.operation, node.recomputed);
  nodes_ = numbers_of(nodes);
  std::vector<std::pair<std::int64_t, std::string_view>> slots;
  for (const Graph::SavedSlot& slot : graph.saved) slots.emplace_back(slot.node, slot.slot);
  slots_ = numbers_of(slots);
}

std::string Labels::node(std::int64_t id) const {
  const Graph::Node& node = graph_.nodes[at(id)];
  return place(numbered(node.operation, occurrence(id), is_one_of_several(id)), node.module);
}

std::string Labels::slot(std::int64_t index) const {
  const Graph::SavedSlot& slot = graph_.saved[at(index)];
  const Number& number = slots_[at(index)];
  return node(slot.node) + "." + numbered(slot.slot, number.occurrence, number.is_one_of_several);
}

std::string Labels::slot_without_numbers(std::int64_t index) const {
  const Graph::SavedSlot& slot = graph_.saved[at(index)];
  const Graph::Node& node = node_of(graph_, slot);
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

std::string without_numbers(std::string_view path) {
  std::string pattern;
  for (std::size_t begin = 0, end; begin <= path.size(); begin = end + 1) {
    end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) pattern += '.';
    pattern += is_number ? "*" : part;
  }
  return pattern;
}

std::string label_without_numbers(std::string_view label) {
  std::string pattern;
  for (std::size_t begin = 0, end; begin < label.size(); begin = end + 1) {
    end = std::min(label.find(' ', begin), label.size());
    if (begin > 0) pattern += ' ';
    pattern += without_numbers(label.substr(begin, end - begin));
  }
  return pattern;
}

}  // namespace tapehead::graph
