// Graphs as traces for chrome://tracing and Perfetto.
#pragma once

#include <tapehead/core/graph.h>

#include <string>

namespace tapehead::graph {

/// Trace events in JSON: a slice for each step, one above it for each run of steps of one phase,
/// and the live bytes by category as a counter at the end of each step. A step stands for a
/// microsecond, for there are no times. ValueError without events.
std::string to_trace(const Graph& graph);

}  // namespace tapehead::graph
