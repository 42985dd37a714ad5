// A value's name and what made it, as a reader of a report knows them: the three linear maps in
// front of attention are told apart by the rows of the weight that each reads.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/internal/labels.h>

#include <cstdint>
#include <string>

namespace tapehead::graph {

/// "layers.0.self_attn linear#1 with in_proj_weight[0:64]": the operation that made the value, past
/// views and copies of it, and the first parameter that it reads, or the part of its rows. Empty
/// when no operation made the value.
std::string maker_label(const Labels& labels, std::int64_t value);

/// The value's name; of a view of a value that has one that name, with the rows that it shows:
/// "layers.0.self_attn.in_proj_weight[0:64]". Empty when there is none.
std::string name_label(const Graph& graph, std::int64_t value);

}  // namespace tapehead::graph
