// Modules of one stack that are alike, as one: what tables and differences by module fold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapehead::graph {

/// Whether both names are numbers, the second by `distance` the larger.
bool is_number_after(std::string_view first, std::string_view name, std::int64_t distance);

/// The tree with each run of siblings whose names are consecutive numbers, and which are `alike`
/// when what lies in them is folded, as its first one, named "0-3", with `repeats` of 4, and
/// `merged` with so many. A Tree has a name, repeats and children.
template <class Tree, class Alike, class Merged>
Tree with_runs_folded(Tree tree, Alike alike, Merged merged) {
  std::vector<Tree> all = std::move(tree.children);
  for (Tree& child : all) child = with_runs_folded(std::move(child), alike, merged);
  tree.children.clear();
  for (std::size_t begin = 0, end; begin < all.size(); begin = end) {
    const auto follows = [&](const Tree& next) {
      const auto distance = static_cast<std::int64_t>(end - begin);
      return is_number_after(all[begin].name, next.name, distance) && alike(all[begin], next);
    };
    for (end = begin + 1; end < all.size() && follows(all[end]);) ++end;
    Tree& first = tree.children.emplace_back(std::move(all[begin]));
    if (end - begin == 1) continue;
    first.name += "-" + all[end - 1].name;
    first.repeats = static_cast<std::int64_t>(end - begin);
    merged(first, first.repeats);
  }
  return tree;
}

}  // namespace tapehead::graph
