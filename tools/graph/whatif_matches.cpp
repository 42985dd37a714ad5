// What the patterns of what-if questions find.
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/attention_chain.h>
#include <tapehead/graph/internal/checkpoint_region.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/internal/regions.h>
#include <tapehead/graph/internal/whatif_slots.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

// ---- slots -------------------------------------------------------------------------------------

WhatIfMatch match_of(const Labels& labels, const Keepers& keepers, const std::vector<bool>& chosen,
                     std::int64_t index) {
  const Graph& graph = labels.graph();
  const Graph::SavedSlot& slot = graph.saved[at(index)];
  const Keepers::Slots& all = keepers.of(slot);
  WhatIfMatch match{.name = labels.slot(index), .freed = 0};
  const auto other = std::find_if(all.begin(), all.end(), [&](auto id) { return !chosen[at(id)]; });
  if (exists_anyway(graph, slot))
    match.note = "it shows a parameter or an input, which lives without the slot";
  else if (other != all.end()) match.note = labels.slot(*other) + " keeps the same storage";
  else if (all.front() != index) match.note = "counted with " + labels.slot(all.front());
  else match.freed = keepers.retained(slot);
  return match;
}

// ---- masks -------------------------------------------------------------------------------------

// What whatif.h says of a mask that the kernel keeps, though it may need less of it.
std::string bound_of_mask(const Graph& graph, const AttentionChain& chain,
                          std::set<std::int64_t>& told) {
  for (const Graph::SavedSlot& slot : graph.saved) {
    if (slot.node != chain.mask || slot.slot != "mask" || slot.packing >= 0) continue;
    const Graph::Value& mask = value_of(graph, slot);
    const int rank = mask.shape.rank();
    const bool is_square =
        rank >= 2 && mask.shape[rank - 1] > 1 && mask.shape[rank - 1] == mask.shape[rank - 2];
    if (!is_square || is_triangle(graph, slot) || !told.insert(mask.storage).second) continue;
    return "the mask " + to_string(mask.shape) + " is taken to be kept; if it combines a causal " +
           "triangle with another mask, only that one is, and saved bytes and the peak are too " +
           "high by at most " + format_count(graph.storages[at(mask.storage)].bytes) + " bytes";
  }
  return {};
}

// What whatif.h says of a constant that others than the region keep, too, as a mask that layers
// share. `told`: storages.
std::string bound_of_shared(const Graph& graph, const Keepers& keepers,
                            const std::vector<bool>& is_born, const Region& region,
                            std::set<std::int64_t>& told) {
  std::string note;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = value_of(graph, slot);
    if (!region.contains(slot.node) || slot.packing >= 0 || value.producer >= 0 || value.leaf ||
        !is_born[at(value.storage)])
      continue;
    const bool is_shared = std::ranges::any_of(
        keepers.of_storage(value.storage),
        [&](std::int64_t other) { return !region.contains(graph.saved[at(other)].node); });
    if (!is_shared || !told.insert(value.storage).second) continue;
    note += (note.empty() ? "" : "; ") + ("the " + slot.slot) + " " + to_string(value.shape) +
            ", which operations outside it keep too, is taken to be held to the end: if each makes "
            "its own, the peak is lower, by at most " +
            format_count(graph.storages[at(value.storage)].bytes) + " bytes";
  }
  return note;
}

std::vector<bool> born_storages(const Graph& graph) {
  std::vector<bool> is_born(graph.storages.size(), false);
  for (const Graph::Event& event : graph.events)
    if (event.birth) is_born[at(event.storage)] = true;
  return is_born;
}

// ---- regions -----------------------------------------------------------------------------------

// Why a region becomes no checkpoint; empty when it does.
std::string note_of_region(const Graph& graph, const std::vector<Region>& chosen,
                           const Region& region) {
  if (is_checkpoint(graph, region)) return "is a checkpoint already";
  const auto around =
      std::ranges::find_if(chosen, [&](const Region& one) { return one.contains(region.first); });
  if (around->path == region.path) return {};
  return "is already inside the checkpoint " + around->path;
}

}  // namespace

std::vector<WhatIfMatch> recompute_matches(const Graph& graph,
                                           const std::vector<std::string>& slots) {
  const auto [chosen, stays] = choose_slots(graph, slots);
  const Keepers keepers(graph);
  const Labels labels(graph);
  std::vector<WhatIfMatch> found;
  for (std::int64_t i = 0; i < std::ssize(graph.saved); ++i)
    if (chosen[at(i)]) found.push_back(match_of(labels, keepers, chosen, i));
  for (std::int64_t i = 0; i < std::ssize(graph.saved); ++i)
    if (stays[at(i)])
      found.push_back({.name = labels.slot(i),
                       .note = "no operation that could run again made it",
                       .stays = true});
  return found;
}

std::vector<WhatIfMatch> checkpoint_matches(const Graph& graph,
                                            const std::vector<std::string>& paths) {
  const std::vector<Region> chosen = regions_to_checkpoint(graph, paths);
  std::vector<WhatIfMatch> found;
  const Keepers keepers(graph);
  const std::vector<bool> is_born = born_storages(graph);
  std::set<std::pair<std::string, std::int64_t>> met;
  std::set<std::int64_t> told;  // storages of constants
  bool meets_root = false;
  for (const std::string& path : paths)
    for (const Region& region : find_regions("whatif", graph, path)) {
      meets_root = meets_root || region.path.empty();
      if (region.path.empty() || !met.emplace(region.path, region.first).second) continue;
      std::string note = note_of_region(graph, chosen, region);
      if (note.empty()) note = bound_of_shared(graph, keepers, is_born, region, told);
      found.push_back({.name = region.path, .note = std::move(note)});
    }
  if (meets_root)
    found.push_back({.name = "", .note = "no module that runs as one", .stays = true});
  return found;
}

std::vector<WhatIfMatch> fuse_matches(const Graph& graph, const std::vector<std::string>& paths) {
  std::vector<WhatIfMatch> found;
  std::set<std::int64_t> told;  // storages of masks
  for (const AttentionChain& chain : chains_to_fuse(graph, paths))
    found.push_back(
        {.name = graph.nodes[at(chain.softmax)].module, .note = bound_of_mask(graph, chain, told)});
  return found;
}

}  // namespace tapehead::graph
