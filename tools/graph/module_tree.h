// The modules of a graph as a tree of sums: what the tables of text.h and later reports print.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// One module with everything below it.
struct ModuleSums {
  std::string name;              ///< the last part of its path, "0-3" for modules folded together
  std::int64_t repeats = 1;      ///< how many neighbours this entry stands for; sums are over all
  std::int64_t operations = 0;   ///< that were recorded
  std::int64_t activations = 0;  ///< bytes of saved storages that are no parameters or inputs
  std::int64_t others = 0;       ///< bytes of saved parameters and inputs
  std::int64_t flops = 0;        ///< of its operations in the forward computation
  std::int64_t parameters = 0;   ///< bytes of its parameters, where they were asked for
  std::vector<ModuleSums> children;  ///< in the order in which they first ran
  bool operator==(const ModuleSums&) const = default;
};

/// The tree of `graph`, children in the order in which they first run. A storage is counted once,
/// in the innermost module that encloses all operations which keep it. What was recomputed within a
/// rule counts nowhere.
ModuleSums module_sums(const Graph& graph);

/// The same with the bytes of the parameters that operations used, each in the module that its name
/// begins with. That module has a row even when no operation ran in it.
ModuleSums module_sums_with_parameters(const Graph& graph);

/// The same with runs of siblings folded whose names are consecutive numbers and which are equal
/// otherwise.
ModuleSums folded(ModuleSums tree);

/// What no child of the module counts: what its own operations do, and what several children share.
/// Of the tree itself that is what has no module's path, as the operations of an unnamed root
/// module and those outside any module. With the module's name and repeats, without children.
ModuleSums own_sums(const ModuleSums& module);

/// One line of a table by module.
struct ModuleRow {
  std::string label;  ///< indented by depth: "  self_attn", "layers.0-3 x 4"
  ModuleSums sums;    ///< without the children
};

/// The lines of a table of `tree`, parents before their children. own_sums() come before the
/// children as "(own)", those of the tree as "(root)", unless they are 0. A module that adds
/// nothing to its only child shares that child's line.
std::vector<ModuleRow> table_rows(const ModuleSums& tree);

}  // namespace tapehead::graph
