// What was live when: the events of a graph that a Ledger made, added up.
#pragma once

#include <tapehead/core/graph.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::graph {

/// Every Category, at the position of its number.
inline constexpr std::array categories = {
    Category::transient, Category::parameter,       Category::input,   Category::saved,
    Category::gradient,  Category::optimizer_state, Category::constant};
/// How many there are.
inline constexpr std::size_t category_count = categories.size();
/// Bytes, at the position of the category.
using BytesByCategory = std::array<std::int64_t, category_count>;

/// Live bytes through the steps of a graph. A storage counts in the category that it ended up in.
struct Timeline {
  std::int64_t unwatched = 0;          ///< live before, and met by no operation: counted throughout
  std::vector<BytesByCategory> after;  ///< at the end of each step
  std::vector<std::int64_t> highest;   ///< the most that was live within each step, unwatched too
  std::int64_t peak = 0;               ///< the highest of all
  std::int64_t peak_step = -1;         ///< the first step that reached it; -1 without events
  std::vector<std::int64_t> live_at_peak;  ///< storages, the largest first
  BytesByCategory at_peak{};               ///< of these
};

/// ValueError, naming the operation, when the graph has no events: it is not that of a ledger
/// (ledger.graph()).
Timeline timeline(const Graph& graph, const char* operation = "timeline");

/// Why each storage of the graph exists, in one line: which slots keep it and which formulas read
/// it, the name of the parameter, what made it, or else what its category says.
std::vector<std::string> reasons(const Graph& graph);

}  // namespace tapehead::graph
