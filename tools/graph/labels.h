// How reports name what stands in a graph.
#pragma once

#include <tapehead/core/graph.h>

#include <string>
#include <string_view>

namespace tapehead::graph {

/// "layers.0 softmax"; the operation alone outside any module.
std::string place(std::string_view operation, std::string_view module);

/// "layers.0 softmax.y".
std::string slot_label(const Graph& graph, const Graph::SavedSlot& slot);

/// "f32 (2, 3)".
std::string describe(const Graph::Value& value);

}  // namespace tapehead::graph
