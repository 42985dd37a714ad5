// The steps of a graph with their births and deaths, to be edited. For what-if questions.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/internal/at.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tapehead::graph {

class Script {
 public:
  /// Within the steps of the original: at the start of a step, at its end, or in the steps that are
  /// inserted after it.
  enum class Part : std::uint8_t { start, end, after };
  struct Place {
    std::int64_t step = 0;
    Part part = Part::end;
    auto operator<=>(const Place&) const = default;
  };
  struct Tick {
    Graph::Step step;
    std::vector<Graph::Event> events = {};  ///< their `step` is filled in at the end
  };

  /// Edits `graph`, which must outlive it.
  explicit Script(Graph& graph);

  /// False when no ledger watched: then there is nothing to edit.
  bool has_events() const { return !graph_.events.empty(); }
  std::int64_t steps() const { return std::ssize(own_); }

  /// Where an operation was recorded, and where its rule ran first; -1 when it was not.
  std::int64_t forward_step(std::int64_t node) const { return forward_[at(node)]; }
  std::int64_t backward_step(std::int64_t node) const { return backward_[at(node)]; }
  /// Steps of a storage in the original, -1 when it was not seen to be born or to die.
  std::int64_t birth_step(std::int64_t storage) const { return birth_[at(storage)]; }
  std::int64_t death_step(std::int64_t storage) const { return death_[at(storage)]; }
  /// The events of a step of the original.
  const std::vector<Graph::Event>& events(std::int64_t step) const { return own_[at(step)]; }

  /// A storage of the same size, which no event names yet.
  std::int64_t copy(std::int64_t storage);
  std::int64_t add_storage(Graph::Storage storage);

  void be_born(std::int64_t storage, Place place) { born(place).push_back(storage); }
  /// Moves the birth.
  void move_birth(std::int64_t storage, Place place) {
    reborn_[at(storage)] = true;
    be_born(storage, place);
  }
  /// Moves the death; of several calls the latest place counts.
  void die(std::int64_t storage, Place place);
  /// Where the death is moved, it is not moved in front of this place.
  void live_to(std::int64_t storage, Place place);
  /// No birth and no death.
  void remove(std::int64_t storage) { gone_[at(storage)] = true; }
  /// By storage, whether it was removed.
  const std::vector<bool>& removed() const { return gone_; }
  /// The step goes; its events that are left stand in the next one.
  void remove_step(std::int64_t step) { without_[at(step)] = true; }

  void insert_before(std::int64_t step, Tick tick) { before_[at(step)].push_back(std::move(tick)); }
  void insert_after(std::int64_t step, Tick tick) { after_[at(step)].push_back(std::move(tick)); }

  /// Writes steps and events back to the graph.
  void finish();

 private:
  std::vector<std::int64_t>& born(Place place) {
    return births_[at(place.step) * parts + static_cast<std::size_t>(place.part)];
  }
  void emit(std::int64_t step, Part part, std::vector<Graph::Event>& events);
  void end(Graph::Step step, std::vector<Graph::Event> events);

  static constexpr std::size_t parts = 3;
  Graph& graph_;
  std::vector<std::int64_t> forward_, backward_;            // by node
  std::vector<std::int64_t> birth_, death_;                 // by storage
  std::vector<bool> gone_, reborn_;                         // by storage
  std::vector<std::optional<Place>> moved_, earliest_;      // by storage: places of deaths
  std::vector<std::vector<Graph::Event>> own_;              // by step
  std::vector<bool> without_;                               // by step: it is removed
  std::vector<std::vector<Tick>> before_, after_;           // by step
  std::vector<std::vector<std::int64_t>> births_, deaths_;  // by place
  std::vector<Graph::Step> steps_;                          // of the result
  std::vector<Graph::Event> events_;
};

}  // namespace tapehead::graph
