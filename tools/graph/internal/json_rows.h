// Rows of a graph file as rows of a Graph.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/internal/json_row.h>

namespace tapehead::graph {

/// ValueError, from the row, for a key that is missing or has the wrong kind of value.
void read_row(JsonRow& row, Graph::Node& node);
void read_row(JsonRow& row, Graph::Packing& packing);
void read_row(JsonRow& row, Graph::SavedSlot& slot);
void read_row(JsonRow& row, Graph::Storage& storage);
void read_row(JsonRow& row, Graph::Step& step);
void read_row(JsonRow& row, Graph::Event& event);
void read_row(JsonRow& row, Graph::Value& value);

/// An object of a list in a row. It is read to its end.
Graph::Attribute read_attribute(JsonRow& row);

}  // namespace tapehead::graph
