#include <tapehead/core/count.h>
#include <tapehead/core/graph.h>

#include <algorithm>

namespace tapehead {
namespace {

template <class Keep>
std::int64_t sum_saved(const Graph& graph, Keep&& keep) {
  std::vector<bool> counted(graph.storages.size(), false);
  std::vector<bool> counted_packing(graph.packings.size(), false);
  std::int64_t bytes = 0;
  for (const Graph::SavedSlot& slot : graph.saved) {
    if (graph.nodes[static_cast<std::size_t>(slot.node)].recomputed) continue;
    if (slot.packing >= 0) {
      const auto id = static_cast<std::size_t>(slot.packing);
      if (!counted_packing[id]) bytes += graph.packings[id].bytes;
      counted_packing[id] = true;
      continue;
    }
    const auto id =
        static_cast<std::size_t>(graph.values[static_cast<std::size_t>(slot.value)].storage);
    if (counted[id]) continue;
    counted[id] = true;
    if (keep(graph.storages[id])) bytes += graph.storages[id].bytes;
  }
  return bytes;
}

std::int64_t sum_flops(const Graph& graph, bool recomputed) {
  std::int64_t sum = 0;
  for (const Graph::Node& node : graph.nodes)
    if (node.recomputed == recomputed) sum = count_sum(sum, node.flops);
  return sum;
}

}  // namespace

std::string_view to_string(Graph::Phase phase) {
  switch (phase) {
    case Graph::Phase::forward: return "forward";
    case Graph::Phase::backward: return "backward";
    case Graph::Phase::update: return "update";
    case Graph::Phase::other: break;
  }
  return "other";
}

std::int64_t Graph::saved_activation_bytes() const {
  return sum_saved(*this, [](const Storage& storage) { return !exists_anyway(storage.category); });
}

std::int64_t Graph::saved_bytes() const {
  return sum_saved(*this, [](const Storage&) { return true; });
}

std::int64_t Graph::forward_flops() const { return sum_flops(*this, false); }
std::int64_t Graph::recomputed_flops() const { return sum_flops(*this, true); }

namespace {

// In which event each storage dies, and where the next birth stands from each event on.
class Deaths {
 public:
  explicit Deaths(const Graph& graph)
      : graph_(graph),
        death_(graph.storages.size(), graph.events.size()),
        next_birth_(graph.events.size() + 1, graph.events.size()) {
    for (std::size_t i = graph.events.size(); i-- > 0;) {
      next_birth_[i] = graph.events[i].birth ? i : next_birth_[i + 1];
      if (!graph.events[i].birth) death_[static_cast<std::size_t>(graph.events[i].storage)] = i;
    }
  }

  /// Of a node that was recorded before this event.
  std::vector<std::int64_t> donatable_inputs(const Graph::Node& node, std::size_t event) const {
    std::vector<std::int64_t> positions;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::size_t death = death_[storage_of(node.inputs[i])];
      const bool comes_first = event <= death && death < next_birth_[event];
      if (comes_first && storage_of(node.inputs[i]) != storage_of(node.output))
        positions.push_back(static_cast<std::int64_t>(i));
    }
    return positions;
  }

 private:
  std::size_t storage_of(std::int64_t value) const {
    return static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(value)].storage);
  }

  const Graph& graph_;
  std::vector<std::size_t> death_, next_birth_;
};

}  // namespace

void mark_donatable(Graph& graph) {
  const Deaths deaths(graph);
  for (Graph::Node& node : graph.nodes) node.donatable.clear();
  std::vector<bool> recorded(graph.nodes.size(), false);
  std::size_t event = 0;  // the first one after the step
  for (std::size_t step = 0; step < graph.steps.size(); ++step) {
    while (event < graph.events.size() &&
           graph.events[event].step <= static_cast<std::int64_t>(step))
      ++event;
    if (graph.steps[step].node < 0) continue;
    const auto id = static_cast<std::size_t>(graph.steps[step].node);
    Graph::Node& node = graph.nodes[id];
    const bool records = graph.steps[step].phase == Graph::Phase::forward || node.recomputed;
    if (!records || recorded[id]) continue;  // a later step runs the rule of a recomputed node
    recorded[id] = true;
    node.donatable = deaths.donatable_inputs(node, event);
  }
}

}  // namespace tapehead
