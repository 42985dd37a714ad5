#include <tapehead/graph/glob.h>
#include <tapehead/graph/maker.h>
#include <tapehead/graph/near_names.h>
#include <tapehead/graph/unmatched.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace tapehead::graph {
namespace {

// What is said of a pattern that none of the names matches; empty when one does.
std::string no_match(const char* what, std::string_view pattern,
                     const std::set<std::string_view>& names, decltype(matches)& match = matches) {
  const bool found = std::any_of(names.begin(), names.end(),
                                 [&](std::string_view name) { return match(pattern, name); });
  if (found) return {};
  return "no " + std::string(what) + " matches \"" + std::string(pattern) + "\"" +
         near_names(pattern, names);
}

template <class Rows, class Name>
std::set<std::string_view> names_of(const Rows& rows, Name name) {
  std::set<std::string_view> names;
  for (const auto& row : rows) names.insert(name(row));
  return names;
}

std::string no_match_of_name(const Graph& graph, std::string_view pattern) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    labels.push_back(name_label(graph, static_cast<std::int64_t>(i)));
  return no_match("value's name", pattern, {labels.begin(), labels.end()});
}

bool runs(const Graph& graph, const FilterPatterns& by) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Graph::Node& node) {
    return !node.recomputed && matches(by.operation, node.operation) &&
           matches_module(by.module, node.module);
  });
}

}  // namespace

std::string unmatched(const Graph& graph, const FilterPatterns& by) {
  const auto module = [](const Graph::Node& node) { return std::string_view(node.module); };
  const auto operation = [](const Graph::Node& node) { return std::string_view(node.operation); };
  std::string why;
  if (!by.module.empty())
    why = no_match("module", by.module, names_of(graph.nodes, module), matches_module);
  if (why.empty() && !by.name.empty()) why = no_match_of_name(graph, by.name);
  if (!why.empty() || by.operation.empty()) return why;
  why = no_match("operation", by.operation, names_of(graph.nodes, operation));
  if (why.empty() && !by.module.empty() && !runs(graph, by))
    why = "no operation \"" + std::string(by.operation) + "\" runs in \"" + std::string(by.module) +
          "\"";
  return why;
}

}  // namespace tapehead::graph
