// Work in place, undone.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <vector>

namespace tapehead::graph {

/// A handle to a value that somebody keeps from this operation on.
struct Hold {
  std::int64_t value = 0;
  std::int64_t from = 0;  ///< node
};

/// The graph with these values held: the first operation from there on that wrote its result over
/// the value's storage makes a new one. What came after it is told of the new storage, which is
/// born in that operation's step, before what else it made; the old one dies at the step's end. An
/// operation is taken to have written to an operand's storage when its result lies there and it
/// makes no view.
Graph with_held(const Graph& graph, const std::vector<Hold>& holds);

}  // namespace tapehead::graph
