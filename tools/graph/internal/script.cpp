#include <tapehead/graph/internal/script.h>

#include <algorithm>
#include <utility>

namespace tapehead::graph {

Script::Script(Graph& graph)
    : graph_(graph),
      forward_(graph.nodes.size(), -1),
      backward_(graph.nodes.size(), -1),
      birth_(graph.storages.size(), -1),
      death_(graph.storages.size(), -1),
      gone_(graph.storages.size(), false),
      reborn_(graph.storages.size(), false),
      moved_(graph.storages.size()),
      earliest_(graph.storages.size()),
      own_(graph.steps.size()),
      without_(graph.steps.size(), false),
      before_(graph.steps.size()),
      after_(graph.steps.size()),
      births_(graph.steps.size() * parts) {
  for (const Graph::Event& event : graph.events) {
    own_[at(event.step)].push_back(event);
    (event.birth ? birth_ : death_)[at(event.storage)] = event.step;
  }
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    const Graph::Step& step = graph.steps[i];
    if (step.node < 0) continue;
    if (step.phase == Graph::Phase::forward) forward_[at(step.node)] = static_cast<std::int64_t>(i);
    if (step.phase == Graph::Phase::backward)
      backward_[at(step.node)] = static_cast<std::int64_t>(i);
  }
}

std::int64_t Script::add_storage(Graph::Storage storage) {
  graph_.storages.push_back(std::move(storage));
  birth_.push_back(-1);
  death_.push_back(-1);
  gone_.push_back(false);
  reborn_.push_back(false);
  moved_.emplace_back();
  earliest_.emplace_back();
  return std::ssize(graph_.storages) - 1;
}

std::int64_t Script::copy(std::int64_t storage) {
  return add_storage(Graph::Storage(graph_.storages[at(storage)]));
}

void Script::die(std::int64_t storage, Place place) {
  std::optional<Place>& moved = moved_[at(storage)];
  if (!moved || *moved < place) moved = place;
}

void Script::live_to(std::int64_t storage, Place place) {
  // An empty place is less than any.
  earliest_[at(storage)] = std::max(earliest_[at(storage)], std::optional(place));
}

void Script::emit(std::int64_t step, Part part, std::vector<Graph::Event>& events) {
  const std::size_t place = at(step) * parts + static_cast<std::size_t>(part);
  for (const std::int64_t storage : births_[place])
    if (!gone_[at(storage)]) events.push_back({.storage = storage, .birth = true});
  for (const std::int64_t storage : deaths_[place])
    if (!gone_[at(storage)]) events.push_back({.storage = storage, .birth = false});
}

void Script::end(Graph::Step step, std::vector<Graph::Event> events) {
  for (Graph::Event& event : events) {
    event.step = std::ssize(steps_);
    events_.push_back(event);
  }
  steps_.push_back(std::move(step));
}

void Script::finish() {
  deaths_.resize(births_.size());
  for (std::size_t id = 0; id < moved_.size(); ++id)
    if (moved_[id]) {
      moved_[id] = std::max(moved_[id], earliest_[id]);
      deaths_[at(moved_[id]->step) * parts + static_cast<std::size_t>(moved_[id]->part)].push_back(
          static_cast<std::int64_t>(id));
    }
  std::vector<Graph::Event> events;
  for (std::int64_t i = 0; i < steps(); ++i) {
    for (Tick& tick : before_[at(i)]) end(std::move(tick.step), std::move(tick.events));
    emit(i, Part::start, events);
    for (const Graph::Event& event : own_[at(i)])
      if (!gone_[at(event.storage)] &&
          !(event.birth ? reborn_[at(event.storage)] : moved_[at(event.storage)].has_value()))
        events.push_back(event);
    emit(i, Part::end, events);
    if (!without_[at(i)]) end(std::move(graph_.steps[at(i)]), std::exchange(events, {}));
    for (Tick& tick : after_[at(i)]) {
      events.insert(events.end(), tick.events.begin(), tick.events.end());
      if (&tick == &after_[at(i)].front()) emit(i, Part::after, events);
      end(std::move(tick.step), std::exchange(events, {}));
    }
  }
  if (!events.empty()) end({.phase = Graph::Phase::other}, std::move(events));
  graph_.steps = std::move(steps_);
  graph_.events = std::move(events_);
}

}  // namespace tapehead::graph
