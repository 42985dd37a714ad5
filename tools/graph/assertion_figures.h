// The figures that assertions compare; for assertion.cpp only.
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
  std::int64_t (*of)(const Graph&, const FigureFilter&);
};

/// Null when there is none of that name.
const Figure* find_figure(std::string_view name);

}  // namespace tapehead::graph
