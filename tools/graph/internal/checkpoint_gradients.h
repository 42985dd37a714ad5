// The gradients that cross the border of a checkpoint.
#pragma once

#include <tapehead/graph/internal/checkpoint_region.h>

#include <cstdint>

namespace tapehead::graph {

/// Edits the script for the gradients that cross the region's border: what whatif.h says of g, and
/// of values that enter. The storage to which a sum is written that went to g before; -1 when there
/// is none.
std::int64_t hold_gradients(const CheckpointRegion& region, Script& script);

/// Edits a graph whose script is finished. `sum` is that of hold_gradients(), not -1: from the
/// region's end on it is what g's buffer was, and g dies in its place.
void pass_on_sum(const Region& region, std::int64_t sum, Graph& graph);

}  // namespace tapehead::graph
