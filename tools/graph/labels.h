// How reports name what stands in a graph. Internal.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// "layers.0 softmax"; the operation alone outside any module.
std::string place(std::string_view operation, std::string_view module);

/// "layers.0 softmax.y".
std::string slot_label(const Graph& graph, const Graph::SavedSlot& slot);

/// "backward of linear in layers.1.linear2".
std::string describe(const Graph::Step& step);

/// "step 72, backward of linear in layers.1.linear2"; "before the first step" for a negative index.
std::string place_of_step(const Graph& graph, std::int64_t index);

/// "f32 (2, 3)".
std::string describe(const Graph::Value& value);

}  // namespace tapehead::graph
