#include <tapehead/graph/internal/compaction.h>

namespace tapehead::graph {
namespace {

// Where the rows stand that stay; -1 for those that go.
std::vector<std::int64_t> new_places(const std::vector<bool>& gone) {
  std::vector<std::int64_t> places;
  places.reserve(gone.size());
  std::int64_t next = 0;
  for (const bool goes : gone) places.push_back(goes ? -1 : next++);
  return places;
}

template <class Row>
void drop(std::vector<Row>& rows, const std::vector<bool>& gone) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (!gone[i] && next++ != i) rows[next - 1] = std::move(rows[i]);
  rows.resize(next);
}

void renumber(std::int64_t& id, const std::vector<std::int64_t>& places) {
  if (id >= 0) id = places[static_cast<std::size_t>(id)];
}

}  // namespace

void drop_nodes(Graph& graph, const std::vector<bool>& nodes, const std::vector<bool>& storages) {
  std::vector<bool> values;
  for (const Graph::Value& value : graph.values)
    values.push_back(storages[static_cast<std::size_t>(value.storage)]);
  const std::vector<std::int64_t> node = new_places(nodes), value = new_places(values),
                                  storage = new_places(storages);
  drop(graph.nodes, nodes);
  drop(graph.values, values);
  drop(graph.storages, storages);
  for (Graph::Value& row : graph.values) {
    renumber(row.storage, storage);
    renumber(row.producer, node);
  }
  for (Graph::Node& row : graph.nodes) {
    for (std::int64_t& input : row.inputs) renumber(input, value);
    renumber(row.output, value);
  }
  for (Graph::SavedSlot& row : graph.saved) {
    renumber(row.node, node);
    renumber(row.value, value);
  }
  for (Graph::Step& row : graph.steps) renumber(row.node, node);
  for (Graph::Event& row : graph.events) renumber(row.storage, storage);
}

}  // namespace tapehead::graph
