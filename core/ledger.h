// Ledger: watches its thread while it lives, and says what was in memory when, and for what.
//
//     Ledger ledger;
//     { Tape tape; ...; optimizer.step(tape.gradient(loss, parameters)); }
//     const Graph graph = ledger.graph();   // tapehead/graph/timeline.h finds the peak in it
//
// Its graph is that of every tape that recorded meanwhile, closed ones too, together with every
// storage that was made, also those that are freed by then, and with the list of these births and
// deaths. Each stands in a step: one operation recorded, one rule run, one parameter updated. What
// an operation records while it computes, as a checkpoint does, has steps but no nodes beside that
// operation's own. A dry run gives the graph of the real run, event by event.
//
// A ledger sees what its own thread allocates and frees; it counts against the account of that
// thread (the process, or the dry run that was active when it was made). Ledgers may be nested;
// each sees everything. Without one, each storage costs one test more.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/core/thread_scope.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapehead {

class Node;
class Storage;
class Tape;

/// What was in memory when, and for what, on this thread while it lives.
class Ledger : public ThreadScope<Ledger> {
 public:
  Ledger();

  /// Everything seen so far. OutOfMemoryError when an event was lost for want of memory; StateError
  /// on another thread than the ledger's; what a node threw when a closing tape asked it about
  /// itself.
  Graph graph() const;

  /// Whether a ledger watches this thread.
  static bool watching() { return innermost() != nullptr; }

  /// Ends a step of this thread's ledgers: what was allocated and freed since the last one belongs
  /// to it. An optimizer calls it for each parameter that it updates.
  static void end_step(Graph::Phase phase, std::string_view operation,
                       std::string_view module) noexcept;

  // What tapes and storages report, while watching() only.
  /// For tapes: an operation was recorded, or its rule has run.
  static void end_step(Graph::Phase phase, const Tape& tape, const Node& node,
                       std::size_t index) noexcept;
  static void closing(const Tape& tape) noexcept;      ///< for tapes: it is about to go
  static void born(const Storage& storage) noexcept;   ///< for storages: it was made
  static void dying(const Storage& storage) noexcept;  ///< for storages: it is about to go
  /// For storages: it is for something else now.
  static void recategorised(const Storage& storage) noexcept;

 private:
  // A tape that recorded while this ledger watched. A closed one has left what it was.
  struct Seen {
    const Tape* open = nullptr;
    bool recomputes = false;
    Graph graph = {};
    std::vector<std::uint64_t> storage_ids = {};
  };
  static constexpr std::size_t no_tape = static_cast<std::size_t>(-1);

  std::size_t seen(const Tape& tape);
  std::int64_t row_of(const Storage& storage);
  void add_event(const Storage& storage, bool birth) noexcept;

  Graph graph_;  // storages, steps and events; nodes and values are still with their tapes
  std::unordered_map<std::uint64_t, std::int64_t> rows_;  // of storages, by their ids
  std::vector<Seen> seen_;
  std::vector<std::size_t> tape_of_step_;  // index in seen_, or no_tape; the rest have none
  bool lost_something_ = false;
  std::exception_ptr thrown_by_operation_;  // when it was asked about itself as its tape closed
};

}  // namespace tapehead
