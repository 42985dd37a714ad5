// What makes rows into a graph: that they agree with one another.
#pragma once

#include <tapehead/core/graph.h>

#include <string_view>

namespace tapehead::graph {

/// Throws ValueError, naming `source` and the row, unless every id names a row that exists, every
/// value's shape can exist and its window lies inside its storage, events come in order, and none
/// says that a storage was not live where an operation reads, makes or keeps what lies in it, and
/// the sum of all bytes and that of floating-point operations fit in 64 bits. A graph from
/// Tape::graph() or Ledger::graph() passes; code that reads a graph which passed needs no checks of
/// its own.
void validate(const Graph& graph, std::string_view source);

}  // namespace tapehead::graph
