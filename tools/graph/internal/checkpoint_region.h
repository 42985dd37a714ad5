// What a region must know of itself to become a checkpoint.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/regions.h>
#include <tapehead/graph/internal/script.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tapehead::graph {

/// What all regions ask of the graph as it was. The graph must outlive it.
struct Original {
  explicit Original(const Graph& all);

  const Graph::Node& node(std::int64_t id) const {
    return graph.nodes[static_cast<std::size_t>(id)];
  }
  const Graph::Value& value(std::int64_t id) const {
    return graph.values[static_cast<std::size_t>(id)];
  }
  std::int64_t storage(std::int64_t value_id) const { return value(value_id).storage; }
  std::int64_t bytes(std::int64_t storage_id) const {
    return graph.storages[static_cast<std::size_t>(storage_id)].bytes;
  }

  const Graph& graph;
  const Keepers keepers;
  const Readers readers;
  std::vector<std::vector<std::int64_t>> slots_of_node;
};

/// One region of it.
struct CheckpointRegion {
  /// ValueError when the region has several results.
  CheckpointRegion(const Original& original, const Region& region, const Script& script);

  bool contains(std::int64_t node) const { return region.contains(node); }
  bool is_in_backward(std::int64_t step) const { return b0 >= 0 && b0 <= step && step <= b1; }
  /// The first step also holds what happened since the operation before it: all that comes before
  /// the first birth of this operation's own. `begun` is false at the start of a step.
  bool is_before(std::int64_t step, const Graph::Event& event, bool& begun) const;

  const Original& was;
  const Region region;
  std::int64_t result = -1;                         ///< value
  std::vector<std::int64_t> inputs, parameters;     ///< values that enter
  std::int64_t f0 = -1, f1 = -1, b0 = -1, b1 = -1;  ///< first and last step, forward and backward
  std::set<std::int64_t> born;                      ///< storages
  std::set<std::int64_t> entering;                  ///< storages
  std::map<std::int64_t, std::int64_t> kept;  ///< storages, and the first node that keeps them

 private:
  void find_result();
  void find_what_enters();
  void find_kept();
  void find_steps(const Script& script);
  void find_born(const Script& script);
  void leave_out_shared(const Script& script);
};

/// The regions of the modules that the paths match, in order, those left out that are a checkpoint
/// already or lie within another one. ValueError: a path matches nothing, or no region is left of
/// what it matches, or one has a checkpoint among its operations.
std::vector<Region> regions_to_checkpoint(const Graph& graph,
                                          const std::vector<std::string>& paths);

/// Whether the region is a checkpoint and nothing else.
bool is_checkpoint(const Graph& graph, const Region& region);

}  // namespace tapehead::graph
