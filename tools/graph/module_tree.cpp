#include <tapehead/graph/module_tree.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <unordered_map>

namespace tapehead::graph {
namespace {

// The tree while it grows: children are found by name, and a module's sums are its own.
class Builder {
 public:
  explicit Builder(const Graph& graph) : graph_(graph) { modules_.emplace_back(); }

  ModuleSums build() {
    node_module_.reserve(graph_.nodes.size());
    for (const Graph::Node& node : graph_.nodes) {
      node_module_.push_back(find(node.module));
      if (node.recomputed) continue;
      ++modules_[node_module_.back()].own.operations;
      modules_[node_module_.back()].own.flops += node.flops;
    }
    add_storages();
    return assemble(0);
  }

 private:
  struct Module {
    std::size_t parent = 0;
    std::size_t depth = 0;
    ModuleSums own;
    std::unordered_map<std::string_view, std::size_t> by_name;
    std::vector<std::size_t> children;
  };

  std::size_t find(std::string_view path) {
    const auto [known, is_new] = by_path_.try_emplace(path, 0);
    if (!is_new) return known->second;
    std::size_t at = 0;
    for (const std::string_view name : split_path(path)) at = child(at, name);
    return by_path_[path] = at;
  }

  std::size_t child(std::size_t parent, std::string_view name) {
    const auto [found, is_new] = modules_[parent].by_name.try_emplace(name, modules_.size());
    const std::size_t id = found->second;
    if (is_new) {
      modules_[parent].children.push_back(id);
      Module& added = modules_.emplace_back();
      added.parent = parent;
      added.depth = modules_[parent].depth + 1;
      added.own.name = name;
    }
    return id;
  }

  void add_storages() {
    std::vector<std::optional<std::size_t>> keeper(graph_.storages.size());
    std::vector<std::optional<std::size_t>> packer(graph_.packings.size());
    for (const Graph::SavedSlot& slot : graph_.saved) {
      if (graph_.nodes[static_cast<std::size_t>(slot.node)].recomputed) continue;
      const std::size_t module = node_module_[static_cast<std::size_t>(slot.node)];
      const Graph::Value& value = graph_.values[static_cast<std::size_t>(slot.value)];
      std::optional<std::size_t>& kept = slot.packing >= 0
                                             ? packer[static_cast<std::size_t>(slot.packing)]
                                             : keeper[static_cast<std::size_t>(value.storage)];
      kept = kept ? enclosing(*kept, module) : module;
    }
    for (std::size_t i = 0; i < keeper.size(); ++i)
      if (keeper[i]) add_storage(graph_.storages[i], modules_[*keeper[i]].own);
    for (std::size_t i = 0; i < packer.size(); ++i)
      if (packer[i]) modules_[*packer[i]].own.activations += graph_.packings[i].bytes;
  }

  static void add_storage(const Graph::Storage& storage, ModuleSums& sums) {
    const bool exists_anyway =
        storage.category == Category::parameter || storage.category == Category::input;
    (exists_anyway ? sums.others : sums.activations) += storage.bytes;
  }

  std::size_t enclosing(std::size_t a, std::size_t b) const {
    while (a != b) {
      std::size_t& deeper = modules_[a].depth >= modules_[b].depth ? a : b;
      deeper = modules_[deeper].parent;
    }
    return a;
  }

  ModuleSums assemble(std::size_t id) {
    ModuleSums sums = std::move(modules_[id].own);
    for (const std::size_t child_id : modules_[id].children) {
      const ModuleSums& added = sums.children.emplace_back(assemble(child_id));
      sums.operations += added.operations;
      sums.activations += added.activations;
      sums.others += added.others;
      sums.flops += added.flops;
    }
    return sums;
  }

  const Graph& graph_;
  std::vector<Module> modules_;
  std::vector<std::size_t> node_module_;
  std::unordered_map<std::string_view, std::size_t> by_path_;
};

std::optional<std::int64_t> as_number(std::string_view name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (name.empty() || name[0] == '-' || error != std::errc() || stop != end) return {};
  return number;
}

bool follows(const ModuleSums& first, const ModuleSums& next, std::int64_t distance) {
  const auto a = as_number(first.name), b = as_number(next.name);
  return a && b && *b - *a == distance && first.operations == next.operations &&
         first.activations == next.activations && first.others == next.others &&
         first.flops == next.flops && first.children == next.children;
}

void multiply(ModuleSums& tree, std::int64_t factor) {
  tree.operations *= factor;
  tree.activations *= factor;
  tree.others *= factor;
  tree.flops *= factor;
  for (ModuleSums& child : tree.children) multiply(child, factor);
}

ModuleSums merge_run(std::span<ModuleSums> run) {
  ModuleSums merged = std::move(run.front());
  if (run.size() == 1) return merged;
  merged.name += "-" + run.back().name;
  merged.repeats = static_cast<std::int64_t>(run.size());
  multiply(merged, merged.repeats);
  return merged;
}

}  // namespace

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty() && parts.size() + 1 < max_module_depth) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
  if (!path.empty()) parts.push_back(path);
  return parts;
}

ModuleSums module_sums(const Graph& graph) { return Builder(graph).build(); }

ModuleSums folded(ModuleSums tree) {
  std::vector<ModuleSums> all = std::move(tree.children);
  for (ModuleSums& child : all) child = folded(std::move(child));
  tree.children.clear();
  for (std::size_t begin = 0, end; begin < all.size(); begin = end) {
    end = begin + 1;
    while (end < all.size() &&
           follows(all[begin], all[end], static_cast<std::int64_t>(end - begin)))
      ++end;
    tree.children.push_back(merge_run(std::span(all).subspan(begin, end - begin)));
  }
  return tree;
}

}  // namespace tapehead::graph
