// One row for each saved slot of a graph: what it keeps, why, and at what price.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::graph {

/// What one slot keeps, and who else does.
struct SavedRow {
  std::int64_t index = 0;     ///< in graph.saved
  std::int64_t needed = 0;    ///< bytes of the distinct elements that the value shows
  std::int64_t retained = 0;  ///< bytes of the storage, or packing, that the slot keeps alive
  std::int64_t freed = 0;     ///< less saved_activation_bytes() if this slot alone were dropped
  std::int64_t sharers = 0;   ///< other slots that keep the same
  std::vector<std::int64_t> shared_with = {};  ///< the first of them, in graph.saved
  std::int64_t viewers = 0;                  ///< other operations whose results lie in that storage
  std::vector<std::int64_t> viewed_by = {};  ///< the first of them, in graph.nodes
  std::int64_t death = -1;  ///< the step in which the storage dies; -1 if it outlives the ledger
  bool operator==(const SavedRow&) const = default;
};

/// By what rows are sorted.
enum class SavedOrder { bytes, module, operation };

/// Which rows, and in which order. Patterns are those of glob.h; an empty one takes every row.
struct SavedSelection {
  std::string name = {};                 ///< of the slot or the saved value
  std::string operation = {};            ///< of the operation
  std::string module = {};               ///< of its module or one that this lies in
  bool shared = false;                   ///< only what several slots keep
  bool two_equal_dims = false;           ///< only shapes with two dims of the same size above 1
  SavedOrder order = SavedOrder::bytes;  ///< retained bytes, the most first; or by name
};

/// The rows of `graph`. What recomputed nodes save comes and goes within a rule: it has no row.
/// ValueError: a pattern matches nothing in the graph, with names that are near; where what it
/// matches saves nothing, there are no rows.
std::vector<SavedRow> saved_rows(const Graph& graph, const SavedSelection& selection = {});

/// @{
/// The rows for a terminal, with sums, or that there are none; as JSON, {"rows": [...]}.
std::string saved_text(const Graph& graph, const std::vector<SavedRow>& rows);
std::string saved_json(const Graph& graph, const std::vector<SavedRow>& rows);
/// @}

}  // namespace tapehead::graph
