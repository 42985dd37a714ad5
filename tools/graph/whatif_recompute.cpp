#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/regions.h>
#include <tapehead/graph/internal/script.h>
#include <tapehead/graph/internal/whatif_slots.h>
#include <tapehead/graph/validate.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

using Part = Script::Part;

// Beyond this many operations that run again the answer is plain, and the graph too large to hold.
constexpr std::size_t most_runs = 1'000'000;

class Recomputation {
 public:
  /// `chosen`: the slots.
  Recomputation(const Graph& was, std::vector<bool> chosen, Graph& result)
      : was_(was),
        chosen_(std::move(chosen)),
        keepers_(was),
        readers_(was),
        result_(result),
        script_(result) {}

  void apply() {
    for (std::size_t i = 0; i < was_.saved.size(); ++i)
      if (chosen_[i]) make_again(was_.saved[i]);
    if (script_.has_events()) free_storages();
    std::size_t next = 0;
    std::erase_if(result_.saved, [&](const auto&) { return chosen_[next++]; });
    if (script_.has_events()) script_.finish();
  }

 private:
  std::int64_t storage(std::int64_t value) const { return was_.values[at(value)].storage; }

  // Whether the value can be had when the rule of `node` runs: slots of later operations are gone
  // by then.
  bool is_there(std::int64_t value, std::int64_t node) const {
    if (was_.values[at(value)].producer < 0) return true;
    const auto& slots = keepers_.of_storage(storage(value));
    return std::any_of(slots.begin(), slots.end(), [&](std::int64_t slot) {
      return !chosen_[at(slot)] && was_.saved[at(slot)].node <= node;
    });
  }

  // The operations that must run again for the slot, and the storages that they fill.
  void make_again(const Graph::SavedSlot& slot) {
    std::set<std::int64_t> nodes, storages;
    std::vector<std::int64_t> wanted{slot.value};
    while (!wanted.empty()) {
      const std::int64_t value = wanted.back();
      wanted.pop_back();
      if (is_there(value, slot.node)) continue;
      const std::int64_t producer = was_.values[at(value)].producer;
      if (!nodes.insert(producer).second) continue;
      storages.insert(storage(value));
      if (++runs_ > most_runs)
        throw ValueError("whatif", "more than 1,000,000 operations would run again");
      for (const std::int64_t input : was_.nodes[at(producer)].inputs) wanted.push_back(input);
    }
    for (const std::int64_t node : nodes) {
      result_.nodes.push_back(was_.nodes[at(node)]);
      result_.nodes.back().recomputed = true;
    }
    const std::int64_t step = script_.has_events() ? script_.backward_step(slot.node) : -1;
    if (step < 0) return;
    for (const std::int64_t id : storages) {
      const std::int64_t copy = script_.copy(id);
      script_.be_born(copy, {step, Part::start});
      script_.die(copy, {step, Part::end});
    }
  }

  void free_storages() {
    for (std::size_t i = 0; i < was_.saved.size(); ++i) {
      if (!chosen_[i]) continue;
      const std::int64_t id = storage(was_.saved[i].value);
      const auto& slots = keepers_.of_storage(id);
      const bool all = std::all_of(slots.begin(), slots.end(),
                                   [&](std::int64_t slot) { return chosen_[at(slot)]; });
      const std::int64_t death = script_.death_step(id);
      if (!all || death < 0 || was_.steps[at(death)].phase != Graph::Phase::backward) continue;
      const std::int64_t last =
          std::max(value_of(was_, was_.saved[i]).producer, readers_.last_of_storage(id));
      if (const std::int64_t step = script_.forward_step(last); step >= 0)
        script_.die(id, {step, Part::end});
    }
  }

  const Graph& was_;
  const std::vector<bool> chosen_;  // slots
  const Keepers keepers_;
  const Readers readers_;
  Graph& result_;
  Script script_;
  std::size_t runs_ = 0;
};

}  // namespace

Graph recomputed(const Graph& graph, const std::vector<std::string>& slots) {
  Graph result = graph;
  Recomputation(graph, choose_slots(graph, slots).chosen, result).apply();
  validate(result, "whatif");
  mark_donatable(result);
  return result;
}

}  // namespace tapehead::graph
