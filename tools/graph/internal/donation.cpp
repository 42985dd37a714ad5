#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/donation.h>
#include <tapehead/graph/internal/view_operations.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

namespace tapehead::graph {
namespace {

using Events = std::vector<Graph::Event>;

// Whether the result may lie in an operand's storage without having been written to it. A
// checkpoint's function may end in a view.
bool makes_view(const Graph::Node& node) {
  return is_view(node.operation) || node.operation == "checkpoint";
}

// By storage, the operations that wrote over what stood in it, in order.
using Writers = std::unordered_map<std::int64_t, std::vector<std::int64_t>>;

Writers find_writers(const Graph& graph) {
  Writers writers;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.nodes[n];
    if (node.recomputed || makes_view(node)) continue;
    const std::int64_t storage = graph.values[at(node.output)].storage;
    if (std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](std::int64_t input) { return graph.values[at(input)].storage == storage; }))
      writers[storage].push_back(static_cast<std::int64_t>(n));
  }
  return writers;
}

// Those that a hold keeps from writing.
std::set<std::int64_t> find_kept_off(const Graph& graph, const std::vector<Hold>& holds) {
  const Writers writers = find_writers(graph);
  std::set<std::int64_t> kept_off;
  for (const Hold& hold : holds) {
    const auto found = writers.find(graph.values[at(hold.value)].storage);
    if (found == writers.end()) continue;
    const auto first = std::lower_bound(found->second.begin(), found->second.end(), hold.from);
    if (first != found->second.end()) kept_off.insert(*first);
  }
  return kept_off;
}

// A storage of its own for the operation's result and what later shows it. Returns the storage.
std::int64_t move_result(Graph& graph, std::int64_t node) {
  const std::int64_t output = graph.nodes[at(node)].output;
  const std::int64_t was = graph.values[at(output)].storage, is = std::ssize(graph.storages);
  graph.storages.push_back(graph.storages[at(was)]);
  graph.storages.back().operation = graph.nodes[at(node)].operation;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    Graph::Value& value = graph.values[id];
    // Constants are met in order: one that is met later shows what stands there later.
    const bool is_later = value.producer < 0 ? at(output) < id : node <= value.producer;
    if (value.storage == was && is_later) value.storage = is;
  }
  return is;
}

// The first birth that the step's own operation made, or the end of the step.
Events::iterator own_births(const Graph& graph, Events& events, std::int64_t step) {
  const auto begin = std::find_if(events.begin(), events.end(),
                                  [&](const Graph::Event& event) { return event.step >= step; });
  return std::find_if(begin, events.end(), [&](const Graph::Event& event) {
    return event.step > step || (event.birth && graph.storages[at(event.storage)].operation ==
                                                    graph.steps[at(step)].operation);
  });
}

void move_events(Graph& graph, std::int64_t was, std::int64_t is, std::int64_t step) {
  Events& events = graph.events;
  for (Graph::Event& event : events)
    if (event.storage == was && !event.birth) event.storage = is;
  events.insert(own_births(graph, events, step), {.step = step, .storage = is, .birth = true});
  const auto end = std::find_if(events.begin(), events.end(),
                                [&](const Graph::Event& event) { return event.step > step; });
  events.insert(end, {.step = step, .storage = was, .birth = false});
}

}  // namespace

Graph with_held(const Graph& graph, const std::vector<Hold>& holds) {
  Graph result = graph;
  const std::set<std::int64_t> kept_off = find_kept_off(graph, holds);
  if (kept_off.empty()) return result;
  std::unordered_map<std::int64_t, std::int64_t> steps;
  for (std::size_t i = graph.steps.size(); i-- > 0;)
    if (graph.steps[i].phase == Graph::Phase::forward)
      steps[graph.steps[i].node] = static_cast<std::int64_t>(i);
  for (const std::int64_t node : kept_off) {
    const std::int64_t was = result.values[at(result.nodes[at(node)].output)].storage;
    const std::int64_t is = move_result(result, node);
    if (const auto step = steps.find(node); step != steps.end())
      move_events(result, was, is, step->second);
  }
  return result;
}

}  // namespace tapehead::graph
