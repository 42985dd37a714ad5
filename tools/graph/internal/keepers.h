// Which slots keep which storage.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tapehead::graph {

/// For each storage and each packing of a graph the slots that keep it, those of recomputed nodes
/// left out: what they save comes and goes within a rule.
class Keepers {
 public:
  using Slots = std::vector<std::int64_t>;  ///< in graph.saved

  explicit Keepers(const Graph& graph);

  const Slots& of(const Graph::SavedSlot& slot) const;
  const Slots& of_storage(std::int64_t storage) const;

  /// Bytes of the storage or packing that the slot keeps alive.
  std::int64_t retained(const Graph::SavedSlot& slot) const;

 private:
  const Graph& graph_;
  std::vector<Slots> storages_, packings_;
};

/// What a slot keeps: whether a packing or a storage, and its id. For sums that count each once.
using Kept = std::pair<bool, std::int64_t>;
Kept kept_by(const Graph& graph, const Graph::SavedSlot& slot);

/// Whether the slot keeps a parameter or an input itself, which lives without the slot too.
bool exists_anyway(const Graph& graph, const Graph::SavedSlot& slot);

}  // namespace tapehead::graph
