// Runs of operations of one module, which what-if questions change together.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// Nodes first to last, all of them of the module `path` or of one below it; of the empty path,
/// none of a module that has a name.
struct Region {
  std::string path;
  std::int64_t first = 0, last = 0;
  bool contains(std::int64_t node) const { return first <= node && node <= last; }
};

/// The regions of the modules that `path` matches as a whole, * and ? being wildcards, in order.
/// The shortest path that matches is the module; glob.h tells what matches the empty one.
/// ValueError, naming `operation`, when there is none.
std::vector<Region> find_regions(const char* operation, const Graph& graph, std::string_view path);

/// Which operations read each value and each storage.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  /// The last node that reads the value, or any value of the storage; -1 when none does.
  std::int64_t last_of_value(std::int64_t value) const {
    return by_value_[static_cast<std::size_t>(value)];
  }
  /// How often the value is read.
  std::int64_t count_of_value(std::int64_t value) const {
    return counts_[static_cast<std::size_t>(value)];
  }
  std::int64_t last_of_storage(std::int64_t storage) const {
    return by_storage_[static_cast<std::size_t>(storage)];
  }

 private:
  std::vector<std::int64_t> by_value_, counts_, by_storage_;
};

}  // namespace tapehead::graph
