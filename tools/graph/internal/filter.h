// Which operations and saved slots a report or an assertion speaks of.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/internal/labels.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// The patterns of glob.h; where there is none, everything is taken. (The commands and assertions
/// refuse an empty one that a user wrote.) A slot's label is that of labels.h, and a value's own
/// name that of maker.h.
struct FilterPatterns {
  std::string_view name = {}, operation = {}, module = {};
};

/// What the patterns choose of a graph. What was recomputed within rules is never chosen. The graph
/// and the patterns' text must outlive it.
class Filter {
 public:
  Filter(const Graph& graph, const FilterPatterns& patterns);

  bool takes_node(std::int64_t id) const;
  /// `index` is in graph.saved.
  bool takes_slot(std::int64_t index) const;
  /// What in the patterns matches nothing in the graph, with names that are near, a slip that an
  /// empty answer would hide; empty when all is well. Some operation must run in a module that
  /// matches, some slot or value have a name that does, and an operation that matches must run, in
  /// the module if one is given.
  std::string unmatched() const;

 private:
  bool has_operation(std::int64_t node) const;
  bool has_name(std::int64_t slot) const;
  std::string unmatched_name() const;
  template <class Holds>
  bool any_node(Holds holds) const;

  const Graph& graph_;
  const FilterPatterns by_;
  const Labels labels_;
};

}  // namespace tapehead::graph
