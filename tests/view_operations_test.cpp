// The list of view operations, by which reports and what-ifs tell a view from what was written in
// place, against the operations themselves.
#include "support/operation_run.h"

#include <tapehead/graph/internal/view_operations.h>

#include <set>
#include <string>

using namespace tapehead;
using namespace tapehead::tests;

TEST_CASE("the view operations are those whose results lie in their inputs' storage") {
  std::set<std::string, std::less<>> found;
  for_each_variation(layout_variations, [&](const OperationCase& row, const Variation& variation) {
    // No operation works in place on a leaf: what lies in its storage is a view.
    const std::vector<Tensor> inputs = make_leaves(row, variation);
    Tape tape;
    row.call(inputs);
    const Graph graph = tape.graph();
    const auto storage = [&](std::int64_t value) {
      return graph.values[static_cast<std::size_t>(value)].storage;
    };
    std::set<std::int64_t> of_leaves;
    for (const Graph::Value& value : graph.values)
      if (value.leaf) of_leaves.insert(value.storage);
    for (const Graph::Node& node : graph.nodes)
      if (of_leaves.contains(storage(node.output))) found.insert(node.operation);
  });
  for (const std::string& operation : found) CHECK_MESSAGE(graph::is_view(operation), operation);
  for (const std::string_view operation : graph::view_operations)
    CHECK_MESSAGE(found.contains(operation), operation);
}
