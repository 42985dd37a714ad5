#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/checkpoint_region.h>
#include <tapehead/graph/internal/module_path.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace tapehead::graph {

Original::Original(const Graph& all)
    : graph(all), keepers(all), readers(all), slots_of_node(all.nodes.size()) {
  for (std::size_t i = 0; i < graph.saved.size(); ++i)
    slots_of_node[at(graph.saved[i].node)].push_back(static_cast<std::int64_t>(i));
}

CheckpointRegion::CheckpointRegion(const Original& original, const Region& nodes,
                                   const Script& script)
    : was(original), region(nodes) {
  find_result();
  find_what_enters();
  find_kept();
  if (script.has_events()) find_steps(script);
  if (f0 >= 0) find_born(script);
}

void CheckpointRegion::find_result() {
  for (std::int64_t n = region.first; n <= region.last; ++n) {
    const std::int64_t value = was.node(n).output;
    const bool is_read_outside = was.readers.last_of_value(value) > region.last;
    if (!is_read_outside && (n < region.last || result >= 0)) continue;
    if (result >= 0 && result != value)
      throw ValueError("whatif", region.path + " has several results; a checkpoint has one");
    result = value;
  }
}

void CheckpointRegion::find_what_enters() {
  std::set<std::int64_t> seen;
  for (std::int64_t n = region.first; n <= region.last; ++n)
    for (const std::int64_t input : was.node(n).inputs) {
      const Graph::Value& value = was.value(input);
      if (contains(value.producer) || !seen.insert(input).second) continue;
      (value.leaf ? parameters : inputs).push_back(input);
    }
}

// Storages that slots of the region keep, with the first node that does.
void CheckpointRegion::find_kept() {
  for (std::int64_t n = region.first; n <= region.last; ++n)
    for (const std::int64_t slot : was.slots_of_node[at(n)])
      if (was.graph.saved[at(slot)].packing < 0)
        kept.emplace(was.storage(was.graph.saved[at(slot)].value), n);
}

void CheckpointRegion::find_steps(const Script& script) {
  for (std::int64_t n = region.first; n <= region.last; ++n) {
    const std::int64_t forward = script.forward_step(n), backward = script.backward_step(n);
    if (forward >= 0) {
      f0 = f0 < 0 ? forward : std::min(f0, forward);
      f1 = std::max(f1, forward);
    }
    if (backward >= 0) {
      b0 = b0 < 0 ? backward : std::min(b0, backward);
      b1 = std::max(b1, backward);
    }
  }
}

bool CheckpointRegion::is_before(std::int64_t step, const Graph::Event& event, bool& begun) const {
  if (step > f0 || begun) return false;
  begun = event.birth &&
          was.graph.storages[at(event.storage)].operation == was.graph.steps[at(step)].operation;
  return !begun;
}

// Constants that others keep, too, as a mask that layers share and that the first of them makes:
// the function holds them, and the second run makes neither them nor what was made on the way.
void CheckpointRegion::leave_out_shared(const Script& script) {
  for (const auto& [storage, first] : kept) {
    const auto& slots = was.keepers.of_storage(storage);
    const bool is_shared = std::any_of(slots.begin(), slots.end(), [&](std::int64_t slot) {
      return !contains(was.graph.saved[at(slot)].node);
    });
    const Graph::Value& value = was.value(was.graph.saved[at(slots.front())].value);
    if (!is_shared || value.producer >= 0 || value.leaf || born.erase(storage) == 0) continue;
    const std::int64_t step = script.birth_step(storage);
    for (const Graph::Event& event : script.events(step))
      if (event.birth && script.death_step(event.storage) == step &&
          was.graph.storages[at(event.storage)].operation != was.graph.steps[at(step)].operation)
        born.erase(event.storage);
  }
}

void CheckpointRegion::find_born(const Script& script) {
  for (std::int64_t step = f0; step <= f1; ++step) {
    bool begun = false;
    for (const Graph::Event& event : script.events(step))
      if (!is_before(step, event, begun) && event.birth) born.insert(event.storage);
  }
  leave_out_shared(script);
  std::erase_if(inputs, [&](std::int64_t value) {
    return was.value(value).producer < 0 && born.contains(was.storage(value));
  });
  for (const std::int64_t value : inputs) entering.insert(was.storage(value));
  for (const std::int64_t value : parameters) entering.insert(was.storage(value));
}

bool is_checkpoint(const Graph& graph, const Region& region) {
  return region.first == region.last && graph.nodes[at(region.last)].operation == "checkpoint";
}

namespace {

// The regions that one path matches, as a checkpoint can be made of them.
std::vector<Region> regions_of_path(const Graph& graph, std::string_view path) {
  std::vector<Region> regions = find_regions("whatif", graph, path);
  std::erase_if(regions, [](const Region& region) { return region.path.empty(); });
  if (regions.empty())
    throw ValueError("whatif", std::string(root_name) +
                                   " is no module that runs as one: name the " +
                                   "modules that are to be checkpoints");
  const std::string found = regions.front().path;
  std::erase_if(regions, [&](const Region& region) { return is_checkpoint(graph, region); });
  if (regions.empty())
    throw ValueError("whatif", found + " is a checkpoint already, and so is all that matches \"" +
                                   std::string(path) + "\"");
  for (const Region& region : regions)
    for (std::int64_t n = region.first; n <= region.last; ++n)
      if (graph.nodes[at(n)].operation == "checkpoint")
        throw ValueError("whatif", region.path + " has the checkpoint " +
                                       graph.nodes[at(n)].module +
                                       " in it; what one around it would do is not predicted");
  return regions;
}

}  // namespace

std::vector<Region> regions_to_checkpoint(const Graph& graph,
                                          const std::vector<std::string>& paths) {
  std::vector<Region> all;
  for (const std::string& path : paths)
    std::ranges::move(regions_of_path(graph, path), std::back_inserter(all));
  // What holds others comes before them.
  std::ranges::stable_sort(all, {}, [](const Region& region) {
    return std::tuple(region.first, -region.last, region.path.size());
  });
  std::vector<Region> outer;
  for (Region& region : all)
    if (outer.empty() || outer.back().last < region.last) outer.push_back(std::move(region));
  return outer;
}

}  // namespace tapehead::graph
