// The figures that assertions compare.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// What stands in a figure's brackets. An empty pattern takes everything.
struct FigureFilter {
  std::string name = {}, operation = {}, module = {};
  std::int64_t size = -1;  ///< of square
};

struct Figure {
  std::string_view name;
  bool in_bytes;
  bool takes_name, takes_others;  ///< filters: name; operation and module
  bool takes_size;
  bool tells_absence;  ///< of operations: that a filter finds none is an answer
  std::int64_t (*of)(const Graph&, const FigureFilter&);
};

/// Null when there is none of that name.
const Figure* find_figure(std::string_view name);

/// What in the filter matches nothing in the graph, with names that are near; empty when all is
/// well. A figure of nothing would meet most bounds.
std::string unmatched(const Graph& graph, const Figure& figure, const FigureFilter& filter);

}  // namespace tapehead::graph
