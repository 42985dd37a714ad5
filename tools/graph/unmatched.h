// Filters that match nothing in a graph: a slip that an empty answer would hide. Internal.
#pragma once

#include <tapehead/core/graph.h>

#include <string>
#include <string_view>

namespace tapehead::graph {

/// What reports and assertions choose by, as patterns of glob.h; an empty one takes everything.
struct FilterPatterns {
  std::string_view name = {};  ///< of a value
  std::string_view operation = {}, module = {};
};

/// What in the filter matches nothing in the graph, with names that are near; empty when all is
/// well. Some operation must run in a module that matches, some value have a name that does, and an
/// operation that matches must run, in the module if one is given.
std::string unmatched(const Graph& graph, const FilterPatterns& filter);

}  // namespace tapehead::graph
