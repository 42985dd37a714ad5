#include <tapehead/core/graph.h>

#include <algorithm>

namespace tapehead {
namespace {

template <class Keep>
std::int64_t sum_saved(const Graph& graph, Keep&& keep) {
  std::vector<bool> counted(graph.storages.size(), false);
  std::int64_t bytes = 0;
  for (const Graph::Packing& packing : graph.packings) bytes += packing.bytes;
  for (const Graph::SavedSlot& slot : graph.saved) {
    if (slot.packing >= 0) continue;
    const auto id =
        static_cast<std::size_t>(graph.values[static_cast<std::size_t>(slot.value)].storage);
    if (counted[id]) continue;
    counted[id] = true;
    if (keep(graph.storages[id])) bytes += graph.storages[id].bytes;
  }
  return bytes;
}

}  // namespace

std::int64_t Graph::saved_activation_bytes() const {
  return sum_saved(*this, [](const Storage& storage) {
    return storage.category != Category::parameter && storage.category != Category::input;
  });
}

std::int64_t Graph::saved_bytes() const {
  return sum_saved(*this, [](const Storage&) { return true; });
}

}  // namespace tapehead
