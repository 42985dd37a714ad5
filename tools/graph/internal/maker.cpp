#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/maker.h>
#include <tapehead/graph/internal/view_operations.h>

#include <algorithm>

namespace tapehead::graph {
namespace {

bool shows_input(const Graph::Node& node) {
  return !node.inputs.empty() && (is_view(node.operation) || is_copy(node.operation));
}

// The value that this one is a view or a copy of. Files may hold circles: producers only go down.
std::int64_t behind_views(const Graph& graph, std::int64_t id) {
  for (std::int64_t made_by = graph.values[at(id)].producer;
       made_by >= 0 && shows_input(graph.nodes[at(made_by)]);) {
    id = graph.nodes[at(made_by)].inputs[0];
    const std::int64_t next = graph.values[at(id)].producer;
    if (next >= made_by) break;
    made_by = next;
  }
  return id;
}

// "[0:64]" where `shown` is some rows of `all`; empty where it is another view.
std::string rows_of(const Graph::Value& shown, const Graph::Value& all) {
  const int rank = all.shape.rank();
  if (rank == 0 || shown.shape.rank() != rank || shown.strides != all.strides ||
      shown.shape == all.shape || all.strides[0] <= 0 ||
      !std::equal(shown.shape.begin() + 1, shown.shape.end(), all.shape.begin() + 1))
    return {};
  const std::int64_t first = (shown.offset - all.offset) / all.strides[0];
  return "[" + std::to_string(first) + ":" + std::to_string(first + shown.shape[0]) + "]";
}

// "in_proj_weight[0:64]": the first parameter with a name among the inputs, without the node's
// path.
std::string parameter_of(const Graph& graph, const Graph::Node& node) {
  for (const std::int64_t input : node.inputs) {
    const Graph::Value &shown = graph.values[at(input)],
                       &all = graph.values[at(behind_views(graph, input))];
    if (!all.leaf || all.name.empty()) continue;
    const std::string prefix = node.module.empty() ? "" : node.module + ".";
    return all.name.substr(all.name.starts_with(prefix) ? prefix.size() : 0) + rows_of(shown, all);
  }
  return {};
}

}  // namespace

std::string maker_label(const Labels& labels, std::int64_t value) {
  const Graph& graph = labels.graph();
  const std::int64_t made_by = graph.values[at(behind_views(graph, value))].producer;
  if (made_by < 0) return {};
  const std::string parameter = parameter_of(graph, graph.nodes[at(made_by)]);
  return labels.node(made_by) + (parameter.empty() ? "" : " with " + parameter);
}

std::string name_label(const Graph& graph, std::int64_t value) {
  const Graph::Value &shown = graph.values[at(value)],
                     &all = graph.values[at(behind_views(graph, value))];
  if (!shown.name.empty() || all.name.empty() || all.storage != shown.storage) return shown.name;
  return all.name + rows_of(shown, all);
}

}  // namespace tapehead::graph
