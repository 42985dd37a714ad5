// Removing operations from a graph. The twin of compaction.cpp.

/**
 * Removes the nodes, the storages (both by number) and the values on these, and numbers the rest
 * anew. A step's or a value's node that goes becomes -1.
 */
export function dropNodes(graph, nodes, storages) {
  const newPlaces = (rows, goes) => {
    let next = 0;
    return rows.map((row, i) => (goes(row, i) ? -1 : next++));
  };
  const node = newPlaces(graph.nodes, (_, i) => nodes.has(i));
  const value = newPlaces(graph.values, (row) => storages.has(row.storage));
  const storage = newPlaces(graph.storages, (_, i) => storages.has(i));
  const stays = (places) => (_, i) => places[i] >= 0;
  const moved = (id, places) => (id < 0 ? id : places[id]);
  graph.nodes = graph.nodes.filter(stays(node)).map((row) => ({ ...row,
    inputs: row.inputs.map((id) => value[id]), output: value[row.output] }));
  graph.values = graph.values.filter(stays(value)).map((row) => ({ ...row,
    storage: storage[row.storage], producer: moved(row.producer, node) }));
  graph.storages = graph.storages.filter(stays(storage));
  graph.saved = graph.saved.map((row) => ({ ...row, node: node[row.node],
    value: value[row.value] }));
  graph.steps = graph.steps.map((row) => ({ ...row, node: moved(row.node, node) }));
  graph.events = graph.events.map((row) => ({ ...row, storage: storage[row.storage] }));
}
