#include <tapehead/graph/glob.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/filter.h>
#include <tapehead/graph/internal/maker.h>
#include <tapehead/graph/internal/near_names.h>

#include <algorithm>
#include <set>
#include <vector>

namespace tapehead::graph {
namespace {

std::string no_match(const char* what, std::string_view pattern,
                     const std::set<std::string_view>& names) {
  return "no " + std::string(what) + " matches \"" + std::string(pattern) + "\"" +
         near_names(pattern, names);
}

template <class Name>
std::set<std::string_view> names_of(const Graph& graph, Name name) {
  std::set<std::string_view> names;
  for (const Graph::Node& node : graph.nodes) names.insert(name(node));
  return names;
}

// "softmax.y" of "layers.0 softmax.y".
std::string_view without_module(std::string_view label, const Graph::Node& node) {
  return label.substr(node.module.empty() ? 0 : node.module.size() + 1);
}

}  // namespace

Filter::Filter(const Graph& graph, const FilterPatterns& patterns)
    : graph_(graph), by_(patterns), labels_(graph) {}

bool Filter::takes_node(std::int64_t id) const {
  const Graph::Node& node = graph_.nodes[at(id)];
  return !node.recomputed && has_operation(id) &&
         (by_.module.empty() || matches_module(by_.module, node.module));
}

bool Filter::takes_slot(std::int64_t index) const {
  return takes_node(graph_.saved[at(index)].node) && has_name(index);
}

bool Filter::has_operation(std::int64_t node) const {
  const std::string& operation = graph_.nodes[at(node)].operation;
  return by_.operation.empty() || matches_whole(by_.operation, operation) ||
         matches_whole(by_.operation, numbered(operation, labels_.occurrence(node),
                                               labels_.is_one_of_several(node)));
}

bool Filter::has_name(std::int64_t index) const {
  if (by_.name.empty()) return true;
  const Graph::SavedSlot& slot = graph_.saved[at(index)];
  const Graph::Node& node = node_of(graph_, slot);
  if (matches_whole(by_.name, slot.slot) || matches_whole(by_.name, name_label(graph_, slot.value)))
    return true;
  for (const std::string& label : {labels_.slot(index), labels_.slot_without_numbers(index)})
    if (matches_whole(by_.name, label) || matches_whole(by_.name, without_module(label, node)))
      return true;
  return false;
}

template <class Holds>
bool Filter::any_node(Holds holds) const {
  for (std::int64_t id = 0; id < std::ssize(graph_.nodes); ++id)
    if (holds(id)) return true;
  return false;
}

std::string Filter::unmatched_name() const {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < std::ssize(graph_.values); ++i)
    names.push_back(name_label(graph_, i));
  if (std::ranges::any_of(names, [&](const auto& name) { return matches_whole(by_.name, name); }))
    return {};
  for (std::int64_t i = 0; i < std::ssize(graph_.saved); ++i) {
    if (has_name(i)) return {};
    const Graph::Node& node = node_of(graph_, graph_.saved[at(i)]);
    names.emplace_back(without_module(labels_.slot_without_numbers(i), node));
  }
  return no_match("slot's or value's name", by_.name, {names.begin(), names.end()});
}

std::string Filter::unmatched() const {
  const auto module = [](const Graph::Node& node) { return std::string_view(node.module); };
  const auto operation = [](const Graph::Node& node) { return std::string_view(node.operation); };
  if (!by_.module.empty() && !any_node([&](std::int64_t id) {
        return matches_module(by_.module, graph_.nodes[at(id)].module);
      }))
    return no_match("module", by_.module, names_of(graph_, module));
  if (!by_.name.empty())
    if (std::string why = unmatched_name(); !why.empty()) return why;
  if (by_.operation.empty()) return {};
  if (!any_node([&](std::int64_t id) { return has_operation(id); }))
    return no_match("operation", by_.operation, names_of(graph_, operation));
  if (by_.module.empty() || any_node([&](std::int64_t id) { return takes_node(id); })) return {};
  return "no operation \"" + std::string(by_.operation) + "\" runs in \"" +
         std::string(by_.module) + "\"";
}

}  // namespace tapehead::graph
