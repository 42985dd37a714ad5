#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/keepers.h>

namespace tapehead::graph {
namespace {

std::size_t storage_of(const Graph& graph, const Graph::SavedSlot& slot) {
  return at(value_of(graph, slot).storage);
}

}  // namespace

Keepers::Keepers(const Graph& graph)
    : graph_(graph), storages_(graph.storages.size()), packings_(graph.packings.size()) {
  for (std::size_t i = 0; i < graph.saved.size(); ++i) {
    const Graph::SavedSlot& slot = graph.saved[i];
    if (node_of(graph, slot).recomputed) continue;
    Slots& slots =
        slot.packing >= 0 ? packings_[at(slot.packing)] : storages_[storage_of(graph, slot)];
    slots.push_back(static_cast<std::int64_t>(i));
  }
}

const Keepers::Slots& Keepers::of(const Graph::SavedSlot& slot) const {
  return slot.packing >= 0 ? packings_[at(slot.packing)] : storages_[storage_of(graph_, slot)];
}

const Keepers::Slots& Keepers::of_storage(std::int64_t storage) const {
  return storages_[at(storage)];
}

std::int64_t Keepers::retained(const Graph::SavedSlot& slot) const {
  return slot.packing >= 0 ? graph_.packings[at(slot.packing)].bytes
                           : graph_.storages[storage_of(graph_, slot)].bytes;
}

Kept kept_by(const Graph& graph, const Graph::SavedSlot& slot) {
  const bool is_packed = slot.packing >= 0;
  return {is_packed, is_packed ? slot.packing : value_of(graph, slot).storage};
}

bool exists_anyway(const Graph& graph, const Graph::SavedSlot& slot) {
  return slot.packing < 0 && exists_anyway(graph.storages[storage_of(graph, slot)].category);
}

}  // namespace tapehead::graph
