// What the patterns of what-if questions find.
#include <tapehead/core/error.h>
#include <tapehead/graph/at.h>
#include <tapehead/graph/attention_chain.h>
#include <tapehead/graph/checkpoint_region.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/keepers.h>
#include <tapehead/graph/labels.h>
#include <tapehead/graph/near_names.h>
#include <tapehead/graph/regions.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/graph/whatif_slots.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

// ---- slots -------------------------------------------------------------------------------------

// Empty for slots that are never made again.
std::vector<std::string> labels_of(const Graph& graph) {
  std::vector<std::string> labels;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const bool is_left_out = node_of(graph, slot).recomputed || slot.packing >= 0;
    labels.push_back(is_left_out ? "" : slot_label(graph, slot));
  }
  return labels;
}

bool choose(const Graph& graph, const std::vector<std::string>& labels, const std::string& pattern,
            std::vector<bool>& chosen) {
  bool any = false;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty() || !matches_whole(pattern, labels[i])) continue;
    if (value_of(graph, graph.saved[i]).producer < 0)
      throw ValueError("whatif", labels[i] + " is no result of an operation that could run again");
    any = chosen[i] = true;
  }
  return any;
}

WhatIfMatch match_of(const Graph& graph, const Keepers& keepers, const std::vector<bool>& chosen,
                     std::int64_t index) {
  const Graph::SavedSlot& slot = graph.saved[at(index)];
  const Keepers::Slots& all = keepers.of(slot);
  WhatIfMatch match{.name = slot_label(graph, slot), .freed = 0};
  const auto other = std::find_if(all.begin(), all.end(), [&](auto id) { return !chosen[at(id)]; });
  if (exists_anyway(graph, slot))
    match.note = "it shows a parameter or an input, which lives without the slot";
  else if (other != all.end())
    match.note = slot_label(graph, graph.saved[at(*other)]) + " keeps the same storage";
  else if (all.front() != index)
    match.note = "counted with " + slot_label(graph, graph.saved[at(all.front())]);
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

std::vector<bool> choose_slots(const Graph& graph, const std::vector<std::string>& patterns) {
  const std::vector<std::string> labels = labels_of(graph);
  std::vector<bool> chosen(graph.saved.size(), false);
  for (const std::string& pattern : patterns)
    if (!choose(graph, labels, pattern, chosen))
      throw ValueError("whatif", "no saved slot matches \"" + pattern + "\"" +
                                     near_names(pattern, {labels.begin(), labels.end()}));
  return chosen;
}

std::vector<WhatIfMatch> recompute_matches(const Graph& graph,
                                           const std::vector<std::string>& slots) {
  const std::vector<bool> chosen = choose_slots(graph, slots);
  const Keepers keepers(graph);
  std::vector<WhatIfMatch> found;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) found.push_back(match_of(graph, keepers, chosen, static_cast<std::int64_t>(i)));
  return found;
}

std::vector<WhatIfMatch> checkpoint_matches(const Graph& graph,
                                            const std::vector<std::string>& paths) {
  const std::vector<Region> chosen = regions_to_checkpoint(graph, paths);
  std::vector<WhatIfMatch> found;
  std::set<std::pair<std::string, std::int64_t>> told;
  for (const std::string& path : paths)
    for (const Region& region : find_regions("whatif", graph, path))
      if (told.emplace(region.path, region.first).second)
        found.push_back({.name = region.path, .note = note_of_region(graph, chosen, region)});
  return found;
}

std::vector<WhatIfMatch> fuse_matches(const Graph& graph, std::string_view path) {
  const std::vector<Region> regions = find_regions("whatif", graph, path);
  std::vector<WhatIfMatch> found;
  std::set<std::int64_t> told;  // storages of masks
  for (const AttentionChain& chain : find_chains(graph, Keepers(graph), regions))
    found.push_back(
        {.name = graph.nodes[at(chain.softmax)].module, .note = bound_of_mask(graph, chain, told)});
  return found;
}

}  // namespace tapehead::graph
