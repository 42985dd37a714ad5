#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/timeline.h>

#include <algorithm>
#include <numeric>

namespace tapehead::graph {
namespace {

// Which storages live before the first event: those that no event gives birth to.
std::vector<bool> live_at_first(const Graph& graph) {
  std::vector<bool> live(graph.storages.size(), true);
  for (const Graph::Event& event : graph.events)
    if (event.birth) live[at(event.storage)] = false;
  return live;
}

std::int64_t total(const BytesByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

class Replay {
 public:
  explicit Replay(const Graph& graph) : graph_(graph) {
    const std::vector<bool> live = live_at_first(graph);
    for (std::size_t id = 0; id < live.size(); ++id)
      if (live[id]) of(graph.storages[id]) += graph.storages[id].bytes;
    // A file may know storages from before that it does not count among live_before.
    line_.unwatched = std::max(graph.live_before - total(now_), std::int64_t{0});
    line_.peak = line_.unwatched + total(now_);
  }

  Timeline run() {
    for (std::size_t step = 0; step < graph_.steps.size(); ++step) run_step(step);
    list_live_at_peak();
    return std::move(line_);
  }

 private:
  std::int64_t& of(const Graph::Storage& storage) {
    return now_[static_cast<std::size_t>(storage.category)];
  }

  void run_step(std::size_t step) {
    std::int64_t highest = line_.unwatched + total(now_);
    for (; next_ < graph_.events.size() && at(graph_.events[next_].step) == step; ++next_) {
      const Graph::Event& event = graph_.events[next_];
      const Graph::Storage& storage = graph_.storages[at(event.storage)];
      of(storage) += event.birth ? storage.bytes : -storage.bytes;
      highest = std::max(highest, line_.unwatched + total(now_));
      if (highest <= line_.peak) continue;
      line_.peak = highest;
      line_.peak_step = static_cast<std::int64_t>(step);
      until_peak_ = next_ + 1;
    }
    line_.after.push_back(now_);
    line_.highest.push_back(highest);
  }

  void list_live_at_peak() {
    std::vector<bool> live = live_at_first(graph_);
    for (std::size_t k = 0; k < until_peak_; ++k)
      live[at(graph_.events[k].storage)] = graph_.events[k].birth;
    for (std::size_t id = 0; id < live.size(); ++id) {
      if (!live[id]) continue;
      const Graph::Storage& storage = graph_.storages[id];
      line_.live_at_peak.push_back(static_cast<std::int64_t>(id));
      line_.at_peak[static_cast<std::size_t>(storage.category)] += storage.bytes;
    }
    std::stable_sort(line_.live_at_peak.begin(), line_.live_at_peak.end(), [&](auto a, auto b) {
      return graph_.storages[at(a)].bytes > graph_.storages[at(b)].bytes;
    });
  }

  const Graph& graph_;
  Timeline line_;
  BytesByCategory now_{};
  std::size_t next_ = 0;        // event
  std::size_t until_peak_ = 0;  // events up to and with the one that made the peak
};

// What is known of a storage by its category alone.
std::string_view reason_of(Category category) {
  switch (category) {
    case Category::parameter: return "what is trained";
    case Category::optimizer_state: return "moments that the optimizer keeps between steps";
    case Category::input: return "what the step reads";
    case Category::constant: return "neither read nor trained";
    case Category::saved: return "kept for the backward pass";
    case Category::gradient: return "what the optimizer steps by";
    case Category::transient: return "live before the step, and kept by no slot";
  }
  return {};
}

void append(std::string& list, const std::string& entry) {
  list += list.empty() ? entry : "; " + entry;
}

}  // namespace

Timeline timeline(const Graph& graph, const char* operation) {
  if (graph.events.empty())
    throw ValueError(operation,
                     "the graph has no events, as tape.graph() has none: take the graph.json that "
                     "tapehead train leaves, or ledger.graph() of a Ledger that watched the step");
  return Replay(graph).run();
}

std::vector<std::string> reasons(const Graph& graph) {
  std::vector<std::string> why(graph.storages.size()), made(graph.storages.size());
  const Labels labels(graph);
  for (std::size_t i = 0; i < graph.saved.size(); ++i) {
    const Graph::SavedSlot& slot = graph.saved[i];
    append(why[at(value_of(graph, slot).storage)],
           labels.slot(static_cast<std::int64_t>(i)) + ": " + slot.reason);
  }
  for (const Graph::Value& value : graph.values)
    if (!value.name.empty() && value.offset == 0) made[at(value.storage)] = value.name;
  for (const Graph::Event& event : graph.events) {
    if (!event.birth || !made[at(event.storage)].empty()) continue;
    const Graph::Storage& storage = graph.storages[at(event.storage)];
    const Graph::Step& step = graph.steps[at(event.step)];
    std::string& reason = made[at(event.storage)];
    reason = "made by " + storage.operation;
    // An optimizer makes what it keeps of all parameters before it updates the first.
    if (storage.category == Category::optimizer_state) reason += ", which keeps it between steps";
    else
      reason +=
          " in " + std::string(to_string(step.phase)) + " of " + place(step.operation, step.module);
  }
  for (std::size_t id = 0; id < why.size(); ++id)
    if (why[id].empty())
      why[id] = made[id].empty() ? reason_of(graph.storages[id].category) : made[id];
  return why;
}

}  // namespace tapehead::graph
