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
  return sum_saved(*this, [](const Storage& storage) {
    return storage.category != Category::parameter && storage.category != Category::input;
  });
}

std::int64_t Graph::saved_bytes() const {
  return sum_saved(*this, [](const Storage&) { return true; });
}

}  // namespace tapehead
