#include <tapehead/core/count.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/fold.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/module_tree.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tapehead::graph {
namespace {

void add_to(std::int64_t& sum, std::int64_t more) { sum = count_sum(sum, more); }

// A sum that stopped at largest_count may be less than the counts it is of.
void take_from(std::int64_t& sum, std::int64_t part) {
  sum = std::max<std::int64_t>(sum - part, 0);
}

// The tree while it grows: children are found by name, and a module's sums are its own.
class Builder {
 public:
  explicit Builder(const Graph& graph) : graph_(graph) { modules_.emplace_back(); }

  ModuleSums build(bool with_parameters) {
    node_module_.reserve(graph_.nodes.size());
    for (const Graph::Node& node : graph_.nodes) {
      node_module_.push_back(find(node.module));
      if (node.recomputed) continue;
      ++modules_[node_module_.back()].own.operations;
      add_to(modules_[node_module_.back()].own.flops, node.flops);
    }
    add_storages();
    if (with_parameters) add_parameters();
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
      if (node_of(graph_, slot).recomputed) continue;
      const std::size_t module = node_module_[static_cast<std::size_t>(slot.node)];
      const Graph::Value& value = value_of(graph_, slot);
      std::optional<std::size_t>& kept = slot.packing >= 0
                                             ? packer[static_cast<std::size_t>(slot.packing)]
                                             : keeper[static_cast<std::size_t>(value.storage)];
      kept = kept ? enclosing(*kept, module) : module;
    }
    for (std::size_t i = 0; i < keeper.size(); ++i)
      if (keeper[i]) add_storage(graph_.storages[i], modules_[*keeper[i]].own);
    for (std::size_t i = 0; i < packer.size(); ++i)
      if (packer[i]) add_to(modules_[*packer[i]].own.activations, graph_.packings[i].bytes);
  }

  void add_parameters() {
    std::vector<bool> counted(graph_.storages.size(), false);
    for (const Graph::Value& value : graph_.values) {
      const auto id = static_cast<std::size_t>(value.storage);
      const bool is_parameter = graph_.storages[id].category == Category::parameter;
      if (!value.leaf || !is_parameter || counted[id]) continue;
      counted[id] = true;
      const std::string_view name = value.name;
      const std::size_t dot = name.rfind('.');
      const std::size_t module = dot == name.npos ? 0 : find(name.substr(0, dot));
      add_to(modules_[module].own.parameters, graph_.storages[id].bytes);
    }
  }

  static void add_storage(const Graph::Storage& storage, ModuleSums& sums) {
    add_to(exists_anyway(storage.category) ? sums.others : sums.activations, storage.bytes);
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
      add_to(sums.activations, added.activations);
      add_to(sums.others, added.others);
      add_to(sums.flops, added.flops);
      add_to(sums.parameters, added.parameters);
    }
    return sums;
  }

  const Graph& graph_;
  std::vector<Module> modules_;
  std::vector<std::size_t> node_module_;
  std::unordered_map<std::string_view, std::size_t> by_path_;
};

bool has_same_sums(const ModuleSums& a, const ModuleSums& b) {
  return a.operations == b.operations && a.activations == b.activations && a.others == b.others &&
         a.flops == b.flops && a.parameters == b.parameters;
}

void multiply(ModuleSums& tree, std::int64_t factor) {
  for (std::int64_t* sum :
       {&tree.operations, &tree.activations, &tree.others, &tree.flops, &tree.parameters})
    *sum = count_product(*sum, factor);
  for (ModuleSums& child : tree.children) multiply(child, factor);
}

ModuleSums without_children(const ModuleSums& module) {
  return {.name = module.name,
          .repeats = module.repeats,
          .operations = module.operations,
          .activations = module.activations,
          .others = module.others,
          .flops = module.flops,
          .parameters = module.parameters,
          .children = {}};
}

std::string indented(const std::string& label, std::size_t depth) {
  return std::string(2 * std::min<std::size_t>(depth, 8), ' ') + label;
}

// Unless they are 0.
void add_own_row(const std::string& label, const ModuleSums& module, std::vector<ModuleRow>& rows) {
  ModuleSums own = own_sums(module);
  if (!has_same_sums(own, {})) rows.push_back({label, std::move(own)});
}

void add_rows(const std::string& prefix, const ModuleSums& module, std::size_t depth,
              std::vector<ModuleRow>& rows) {
  const std::string name = prefix + module.name;
  if (module.repeats == 1 && module.children.size() == 1 &&
      has_same_sums(module, module.children[0]))
    return add_rows(name + ".", module.children[0], depth, rows);
  const std::string repeats = module.repeats > 1 ? " x " + std::to_string(module.repeats) : "";
  rows.push_back({indented(name + repeats, depth), without_children(module)});
  if (!module.children.empty()) add_own_row(indented("(own)", depth + 1), module, rows);
  for (const ModuleSums& child : module.children) add_rows("", child, depth + 1, rows);
}

}  // namespace

ModuleSums module_sums(const Graph& graph) { return Builder(graph).build(false); }

ModuleSums module_sums_with_parameters(const Graph& graph) { return Builder(graph).build(true); }

ModuleSums own_sums(const ModuleSums& module) {
  ModuleSums rest = without_children(module);
  for (const ModuleSums& child : module.children) {
    take_from(rest.operations, child.operations);
    take_from(rest.activations, child.activations);
    take_from(rest.others, child.others);
    take_from(rest.flops, child.flops);
    take_from(rest.parameters, child.parameters);
  }
  return rest;
}

ModuleSums folded(ModuleSums tree) {
  const auto alike = [](const ModuleSums& a, const ModuleSums& b) {
    return has_same_sums(a, b) && a.children == b.children;
  };
  return with_runs_folded(std::move(tree), alike, multiply);
}

std::vector<ModuleRow> table_rows(const ModuleSums& tree) {
  std::vector<ModuleRow> rows;
  add_own_row(std::string(root_name), tree, rows);
  for (const ModuleSums& child : tree.children) add_rows("", child, 0, rows);
  return rows;
}

}  // namespace tapehead::graph
