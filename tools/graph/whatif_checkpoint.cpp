#include <tapehead/core/count.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/checkpoint_gradients.h>
#include <tapehead/graph/internal/checkpoint_region.h>
#include <tapehead/graph/internal/compaction.h>
#include <tapehead/graph/internal/donation.h>
#include <tapehead/graph/validate.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

using Place = Script::Place;
using Part = Script::Part;
using Phase = Graph::Phase;

// The edits for one region.
class Checkpoint {
 public:
  Checkpoint(const CheckpointRegion& region, Graph& result, Script& script)
      : region_(region),
        was_(region.was),
        result_(result),
        script_(script),
        node_(region.region.last) {}

  // The storage of hold_gradients(), or -1.
  std::int64_t apply() {
    add_operation();
    add_slots("input", region_.inputs);
    add_slots("parameter", region_.parameters);
    if (!script_.has_events()) clone_all();
    if (region_.f0 < 0) return -1;
    script_.insert_after(region_.f1, {.step = step_in(Phase::forward)});
    end_first_run();
    if (region_.b0 < 0) return -1;
    run_again();
    const std::int64_t sum = hold_gradients(region_, script_);
    script_.insert_after(region_.b1, {.step = step_in(Phase::backward)});
    return sum;
  }

 private:
  // ---- operation and slots ----

  // In the place of the region's last.
  void add_operation() {
    const Region& region = region_.region;
    std::int64_t flops = 0;
    bool planned = false;
    for (std::int64_t n = region.first; n <= region.last; ++n) {
      flops = count_sum(flops, was_.node(n).flops);
      planned = planned || was_.node(n).planned;
    }
    std::vector<std::int64_t> inputs = region_.inputs;
    inputs.insert(inputs.end(), region_.parameters.begin(), region_.parameters.end());
    result_.nodes[at(node_)] = {.operation = "checkpoint",
                                .module = region.path,
                                .attributes = {{"operations", region.last - region.first + 1}},
                                .inputs = std::move(inputs),
                                .output = region_.result,
                                .flops = flops,
                                .planned = planned};
    result_.values[at(region_.result)].producer = node_;
  }

  void add_slots(const char* slot, const std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> all(result_.nodes[at(node_)].inputs.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    for (const std::int64_t value : values)
      result_.saved.push_back({.node = node_,
                               .slot = slot,
                               .reason = "the function runs again",
                               .for_inputs = all,
                               .value = value});
  }

  Graph::Step step_in(Phase phase) const {
    return {
        .phase = phase, .operation = "checkpoint", .module = region_.region.path, .node = node_};
  }

  // ---- the first run: nothing is kept but what enters ----

  void end_first_run() {
    for (std::int64_t step = region_.f0; step <= region_.f1; ++step)
      if (region_.contains(was_.graph.steps[at(step)].node)) result_.steps[at(step)].node = -1;
    const Place end = release();
    for (const std::int64_t storage : region_.entering) {
      const std::int64_t death = script_.death_step(storage);
      if (death >= 0 && Place{death, Part::end} < end) script_.die(storage, end);
      script_.live_to(storage, end);  // whatever another region makes of it
    }
    for (const auto& [storage, first] : region_.kept)
      if (region_.is_in_backward(script_.death_step(storage)) &&
          !region_.entering.contains(storage))
        script_.die(storage, end_without_slots(storage));
  }

  // Where the checkpoint lets go of what enters: at the region's end. One that the backward pass
  // goes by is released before the next rule that runs, and one behind its start with the tape.
  Place release() const {
    if (region_.b1 >= 0) return {region_.b1, Part::after};
    std::int64_t next = script_.steps();
    bool is_passed = false;
    for (std::int64_t n = 0; n < std::ssize(was_.graph.nodes); ++n) {
      const std::int64_t step = script_.backward_step(n);
      if (step < 0) continue;
      if (n < region_.region.first) next = std::min(next, step);
      is_passed = is_passed || n > region_.region.last;
    }
    if (is_passed && next < script_.steps()) return {next, Part::start};
    return {script_.steps() - 1, Part::end};
  }

  Place end_without_slots(std::int64_t storage) const {
    if (!region_.born.contains(storage)) return {script_.steps() - 1, Part::end};
    if (const std::int64_t step = last_keeper_outside(storage); step >= 0) return {step, Part::end};
    if (storage != was_.storage(region_.result)) return {region_.f1, Part::after};
    const std::int64_t reader = was_.readers.last_of_storage(storage);
    const std::int64_t read = reader < 0 ? -1 : script_.forward_step(reader);
    return {std::max(region_.f1, read), Part::end};
  }

  // The backward step of the first operation after the region that keeps the storage, or -1.
  std::int64_t last_keeper_outside(std::int64_t storage) const {
    for (const std::int64_t slot : was_.keepers.of_storage(storage)) {
      const std::int64_t keeper = was_.graph.saved[at(slot)].node;
      if (keeper > region_.region.last && script_.backward_step(keeper) >= 0)
        return script_.backward_step(keeper);
    }
    return -1;
  }

  // ---- the second run, and the backward pass inside ----

  void run_again() {
    std::map<std::int64_t, std::int64_t> copies;
    for (std::int64_t step = region_.f0; step <= region_.f1; ++step)
      script_.insert_before(region_.b0, run_step_again(step, copies));
    for (const auto& [storage, copy] : copies) script_.die(copy, end_of_copy(storage));
    for (std::int64_t step = region_.b0; step <= region_.b1; ++step) {
      Graph::Step& inside = result_.steps[at(step)];
      if (region_.contains(inside.node)) inside.node = clone(inside.node);
    }
  }

  // `copies`: of the storages that live after it.
  Script::Tick run_step_again(std::int64_t step, std::map<std::int64_t, std::int64_t>& copies) {
    Script::Tick tick{.step = was_.graph.steps[at(step)]};
    tick.step.phase = Phase::backward;
    if (region_.contains(tick.step.node)) tick.step.node = clone(tick.step.node);
    bool begun = false;
    for (const Graph::Event& event : script_.events(step)) {
      if (region_.is_before(step, event, begun) || !region_.born.contains(event.storage)) continue;
      if (event.birth) copies[event.storage] = copy(event.storage);
      tick.events.push_back({.storage = copies[event.storage], .birth = event.birth});
      if (!event.birth) copies.erase(event.storage);
    }
    return tick;
  }

  // Saved is what the region's own slots keep.
  std::int64_t copy(std::int64_t storage) {
    const std::int64_t copy = script_.copy(storage);
    Category& category = result_.storages[at(copy)].category;
    if (category == Category::saved && !region_.kept.contains(storage))
      category = Category::transient;
    return copy;
  }

  Place end_of_copy(std::int64_t storage) const {
    const Place end{region_.b1, Part::after};
    if (storage == was_.storage(region_.result)) return end;
    const auto kept = region_.kept.find(storage);
    if (kept == region_.kept.end()) return {region_.b0, Part::start};
    for (std::int64_t n = kept->second; n <= region_.region.last; ++n)
      if (script_.backward_step(n) >= 0) return {script_.backward_step(n), Part::end};
    return end;
  }

  // No step tells what runs again: all of the region, when its gradients are asked for.
  void clone_all() {
    for (std::int64_t n = region_.region.first; n <= region_.region.last; ++n) clone(n);
  }

  std::int64_t clone(std::int64_t id) {
    const auto [entry, is_new] = clones_.try_emplace(id, std::ssize(result_.nodes));
    if (is_new) {
      result_.nodes.push_back(was_.node(id));
      result_.nodes.back().recomputed = true;
      const std::int64_t output = was_.node(id).output;
      if (output != region_.result) result_.values[at(output)].producer = entry->second;
    }
    return entry->second;
  }

  const CheckpointRegion& region_;
  const Original& was_;
  Graph& result_;
  Script& script_;
  const std::int64_t node_;
  std::map<std::int64_t, std::int64_t> clones_;  // nodes
};

// What no slot keeps any more is not saved.
void mark_transient(const std::set<std::int64_t>& storages, Graph& result) {
  const Keepers keepers(result);
  for (const std::int64_t id : storages) {
    Category& category = result.storages[at(id)].category;
    if (category == Category::saved && keepers.of_storage(id).empty())
      category = Category::transient;
  }
}

// What enters the regions is held by the checkpoints: nothing is written over it.
std::vector<Hold> find_holds(const Graph& graph, const std::vector<Region>& regions) {
  std::vector<Hold> holds;
  for (const Region& region : regions)
    for (std::int64_t n = region.first; n <= region.last; ++n)
      for (const std::int64_t input : graph.nodes[at(n)].inputs)
        if (!region.contains(graph.values[at(input)].producer))
          holds.push_back({input, region.first});
  return holds;
}

}  // namespace

Graph checkpointed(const Graph& was, const std::vector<std::string>& paths) {
  const std::vector<Region> regions = regions_to_checkpoint(was, paths);
  const Graph graph = with_held(was, find_holds(was, regions));
  const Original original(graph);
  Graph result = graph;
  Script script(result);
  std::vector<bool> inside(graph.nodes.size(), false);
  for (const Region& region : regions)
    std::fill(inside.begin() + region.first, inside.begin() + region.last + 1, true);
  std::erase_if(result.saved, [&](const auto& slot) { return inside[at(slot.node)]; });
  std::vector<std::int64_t> sums;
  std::set<std::int64_t> kept;  // that the regions' own slots did
  for (const Region& nodes : regions) {
    const CheckpointRegion region(original, nodes, script);
    sums.push_back(Checkpoint(region, result, script).apply());
    for (const auto& [storage, first] : region.kept)
      if (region.born.contains(storage)) kept.insert(storage);
  }
  if (script.has_events()) script.finish();
  mark_transient(kept, result);
  for (std::size_t i = regions.size(); i-- > 0;)  // as the backward pass meets them
    if (sums[i] >= 0) pass_on_sum(regions[i], sums[i], result);
  for (const Region& region : regions) inside[at(region.last)] = false;
  inside.resize(result.nodes.size(), false);
  drop_nodes(result, inside, std::vector<bool>(result.storages.size(), false));
  validate(result, "whatif");
  mark_donatable(result);
  return result;
}

}  // namespace tapehead::graph
