#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/storage.h>
#include <tapehead/core/tape.h>

#include <algorithm>

namespace tapehead {

Ledger::Ledger() { graph_.live_before = memory_stats().live; }

// ---- what storages report -----------------------------------------------------------------------

std::int64_t Ledger::row_of(const Storage& storage) {
  if (const auto found = rows_.find(storage.id()); found != rows_.end()) return found->second;
  const auto row = static_cast<std::int64_t>(graph_.storages.size());
  graph_.storages.push_back({.bytes = static_cast<std::int64_t>(storage.bytes()),
                             .category = storage.category(),
                             .operation = storage.operation()});
  rows_.emplace(storage.id(), row);
  return row;
}

void Ledger::add_event(const Storage& storage, bool birth) noexcept {
  try {
    graph_.events.push_back({.step = static_cast<std::int64_t>(graph_.steps.size()),
                             .storage = row_of(storage),
                             .birth = birth});
  } catch (const std::bad_alloc&) {
    lost_something_ = true;
  }
}

void Ledger::born(const Storage& storage) noexcept {
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer())
    ledger->add_event(storage, true);
}

void Ledger::dying(const Storage& storage) noexcept {
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer())
    ledger->add_event(storage, false);
}

// Also of a storage from before: whoever sets its category has met it, as an optimizer its state.
void Ledger::recategorised(const Storage& storage) noexcept {
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer()) {
    try {
      const auto row = static_cast<std::size_t>(ledger->row_of(storage));
      ledger->graph_.storages[row].category = storage.category();
    } catch (const std::bad_alloc&) {
      ledger->lost_something_ = true;
    }
  }
}

// ---- what tapes and optimizers report -----------------------------------------------------------

void Ledger::end_step(Graph::Phase phase, std::string_view operation,
                      std::string_view module) noexcept {
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer()) {
    try {
      ledger->graph_.steps.push_back(
          {.phase = phase, .operation = std::string(operation), .module = std::string(module)});
    } catch (const std::bad_alloc&) {
      ledger->lost_something_ = true;
    }
  }
}

void Ledger::end_step(Graph::Phase phase, const Tape& tape, const Node& node,
                      std::size_t index) noexcept {
  // What a tape that saves nothing records is part of an operation that another tape records: nodes
  // of its own would count it twice.
  const bool has_node = !tape.saves_nothing_;
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer()) {
    try {
      if (has_node) {
        ledger->tape_of_step_.resize(ledger->graph_.steps.size(), no_tape);
        ledger->tape_of_step_.push_back(ledger->seen(tape));
      }
      ledger->graph_.steps.push_back({.phase = Tape::walking() ? Graph::Phase::backward : phase,
                                      .operation = node.operation(),
                                      .module = node.module(),
                                      .node = has_node ? static_cast<std::int64_t>(index) : -1});
    } catch (const std::bad_alloc&) {
      ledger->lost_something_ = true;
    }
  }
}

std::size_t Ledger::seen(const Tape& tape) {
  // The newest ones last: mostly it is the last.
  for (std::size_t i = seen_.size(); i-- > 0;)
    if (seen_[i].open == &tape) return i;
  seen_.push_back({.open = &tape, .recomputes = Tape::walking()});
  return seen_.size() - 1;
}

void Ledger::closing(const Tape& tape) noexcept {
  for (Ledger* ledger = innermost(); ledger; ledger = ledger->outer()) {
    for (Seen& seen : ledger->seen_) {
      if (seen.open != &tape) continue;
      seen.open = nullptr;
      try {
        seen.graph = tape.snapshot(seen.storage_ids);
        // The operation that such a tape looks into counts them as its own.
        if (tape.saves_nothing_)
          for (Graph::Node& node : seen.graph.nodes) node.flops = 0;
      } catch (const std::bad_alloc&) {
        ledger->lost_something_ = true;
      } catch (...) {
        ledger->thrown_by_operation_ = std::current_exception();
      }
    }
  }
}

// ---- the graph of everything --------------------------------------------------------------------

namespace {

// Appends the graph of one tape, whose ids count from 0, to that of several.
class Merger {
 public:
  Merger(Graph& into, std::unordered_map<std::uint64_t, std::int64_t> rows)
      : into_(into), rows_(std::move(rows)) {}

  // Returns the index that the tape's first node has now.
  std::int64_t append(Graph part, const std::vector<std::uint64_t>& storage_ids, bool recomputed) {
    const auto first_node = static_cast<std::int64_t>(into_.nodes.size());
    const auto first_value = static_cast<std::int64_t>(into_.values.size());
    const auto first_packing = static_cast<std::int64_t>(into_.packings.size());
    into_.packings.insert(into_.packings.end(), part.packings.begin(), part.packings.end());
    for (Graph::Value& value : part.values) {
      const auto storage = static_cast<std::size_t>(value.storage);
      value.storage = row(storage_ids[storage], part.storages[storage]);
      if (value.producer >= 0) value.producer += first_node;
      into_.values.push_back(std::move(value));
    }
    for (Graph::Node& node : part.nodes) {
      for (std::int64_t& input : node.inputs) input += first_value;
      node.output += first_value;
      node.recomputed = recomputed;
      into_.nodes.push_back(std::move(node));
    }
    for (Graph::SavedSlot& slot : part.saved) {
      slot.node += first_node;
      slot.value += first_value;
      if (slot.packing >= 0) slot.packing += first_packing;
      into_.saved.push_back(std::move(slot));
    }
    return first_node;
  }

 private:
  std::int64_t row(std::uint64_t id, const Graph::Storage& storage) {
    const auto next = static_cast<std::int64_t>(into_.storages.size());
    const auto [found, is_new] = rows_.emplace(id, next);
    if (is_new) into_.storages.push_back(storage);
    return found->second;
  }

  Graph& into_;
  std::unordered_map<std::uint64_t, std::int64_t> rows_;
};

}  // namespace

Graph Ledger::graph() const {
  if (!is_on_own_thread()) throw StateError("Ledger", "this ledger belongs to another thread");
  if (lost_something_)
    throw OutOfMemoryError("Ledger", "an event was lost because memory was short");
  if (thrown_by_operation_) std::rethrow_exception(thrown_by_operation_);
  Graph all = graph_;
  Merger merger(all, rows_);
  std::vector<std::int64_t> first_node;
  for (const Seen& seen : seen_) {
    if (seen.open) {
      std::vector<std::uint64_t> ids;
      Graph now = seen.open->snapshot(ids);
      first_node.push_back(merger.append(std::move(now), ids, seen.recomputes));
    } else {
      first_node.push_back(merger.append(seen.graph, seen.storage_ids, seen.recomputes));
    }
  }
  for (std::size_t step = 0; step < tape_of_step_.size(); ++step)
    if (tape_of_step_[step] != no_tape) all.steps[step].node += first_node[tape_of_step_[step]];
  if (!all.events.empty() && all.events.back().step == static_cast<std::int64_t>(all.steps.size()))
    all.steps.push_back({.phase = Graph::Phase::other});
  mark_donatable(all);
  return all;
}

}  // namespace tapehead
