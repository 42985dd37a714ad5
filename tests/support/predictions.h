// What-if predictions against the graphs of real runs.
#pragma once

#include "graph_figures.h"

#include <tapehead/graph/timeline.h>

#include <doctest/doctest.h>

namespace tapehead::tests {

/// Fails unless both have the same bytes saved, peak and operations.
inline void check_equal_figures(const Graph& predicted, const Graph& real) {
  CHECK(predicted.saved_activation_bytes() == real.saved_activation_bytes());
  CHECK(predicted.saved_bytes() == real.saved_bytes());
  CHECK(graph::timeline(predicted).peak == graph::timeline(real).peak);
  CHECK(flops(predicted) == flops(real));
}

}  // namespace tapehead::tests
