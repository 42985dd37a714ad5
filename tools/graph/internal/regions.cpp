#include <tapehead/core/error.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/internal/near_names.h>
#include <tapehead/graph/internal/regions.h>

#include <optional>
#include <set>
#include <unordered_map>

namespace tapehead::graph {
std::vector<Region> find_regions(const char* operation, const Graph& graph, std::string_view path) {
  std::vector<Region> regions;
  std::unordered_map<std::string_view, std::optional<std::string_view>> known;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Node& node = graph.nodes[i];
    if (node.recomputed) continue;
    const auto [entry, is_new] = known.try_emplace(node.module);
    if (is_new) entry->second = matching_module(path, node.module);
    if (!entry->second) continue;
    const auto id = static_cast<std::int64_t>(i);
    if (!regions.empty() && regions.back().last == id - 1 && regions.back().path == *entry->second)
      regions.back().last = id;
    else regions.push_back({std::string(*entry->second), id, id});
  }
  if (regions.empty()) {
    std::set<std::string_view> modules;
    for (const auto& [module, unused] : known) modules.insert(module.empty() ? root_name : module);
    throw ValueError(operation,
                     "no module matches \"" + std::string(path) + "\"" + near_names(path, modules));
  }
  return regions;
}

Readers::Readers(const Graph& graph)
    : by_value_(graph.values.size(), -1),
      counts_(graph.values.size(), 0),
      by_storage_(graph.storages.size(), -1) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::int64_t input : graph.nodes[i].inputs) {
      if (graph.nodes[i].recomputed) continue;
      const auto value = static_cast<std::size_t>(input);
      by_value_[value] = static_cast<std::int64_t>(i);
      ++counts_[value];
      by_storage_[static_cast<std::size_t>(graph.values[value].storage)] =
          static_cast<std::int64_t>(i);
    }
}

}  // namespace tapehead::graph
