#include <tapehead/core/error.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/projection_layouts.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace tapehead::nn {

namespace {

constexpr std::array<std::string_view, 3> parts = {"q_proj", "k_proj", "v_proj"};

// What stands behind the part's name, what three of them make, and their dims.
struct Layout {
  std::string_view suffix, packed;
  int rank;
};
constexpr std::array<Layout, 3> layouts = {{{"_weight", "in_proj_weight", 2},
                                            {".weight", "in_proj_weight", 2},
                                            {".bias", "in_proj_bias", 1}}};

using Entries = std::unordered_map<std::string, Tensor>;

// The prefix of a name that ends in `ending` as a whole word.
std::optional<std::string> prefix_before(const std::string& name, const std::string& ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string prefix = name.substr(0, name.size() - ending.size());
  if (!prefix.empty() && prefix.back() != '.') return std::nullopt;
  return prefix;
}

void check_rank(const char* op, const std::string& name, const Tensor& tensor, int rank) {
  if (tensor.rank() != rank)
    throw ShapeError(op, "\"" + name + "\", " + describe(tensor.detach()) + ", must have " +
                             std::to_string(rank) + (rank == 1 ? " dim" : " dims"));
}

std::vector<std::string> part_names(const std::string& prefix, const Layout& layout) {
  std::vector<std::string> names;
  for (const std::string_view part : parts)
    names.push_back(prefix + std::string(part) + std::string(layout.suffix));
  return names;
}

std::vector<Tensor> find_all(const Entries& entries, const std::vector<std::string>& names,
                             int rank) {
  std::vector<Tensor> tensors;
  for (const std::string& name : names) {
    const auto found = entries.find(name);
    if (found == entries.end())
      throw ValueError("packed_projections",
                       "\"" + names.front() + "\" is there without \"" + name + "\"");
    check_rank("packed_projections", name, found->second, rank);
    tensors.push_back(found->second);
  }
  return tensors;
}

// The packed tensor in whose place the q entry `name` stands, and the names that it replaces.
struct Packed {
  NamedTensor entry;
  std::vector<std::string> replaced;
};
std::optional<Packed> packed_at(const std::string& name, const Entries& entries) {
  for (const Layout& layout : layouts) {
    const auto prefix = prefix_before(name, std::string(parts[0]) + std::string(layout.suffix));
    if (!prefix) continue;
    const std::vector<std::string> names = part_names(*prefix, layout);
    const std::vector<Tensor> tensors = find_all(entries, names, layout.rank);
    const bool fit = std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
      return layout.rank == 1 || tensor.size(1) == tensors.front().size(1);
    });
    if (!fit) return std::nullopt;
    return Packed{{*prefix + std::string(layout.packed), cat(tensors, 0)}, names};
  }
  return std::nullopt;
}

}  // namespace

StateDict packed_projections(const StateDict& state) {
  const Tape::Pause pause;
  Entries entries;
  for (const NamedTensor& entry : state) entries.emplace(entry.name, entry.tensor);
  StateDict result;
  std::unordered_set<std::string> replaced;
  for (const NamedTensor& entry : state) {
    if (std::optional<Packed> packed = packed_at(entry.name, entries)) {
      replaced.insert(packed->replaced.begin(), packed->replaced.end());
      result.push_back(std::move(packed->entry));
    } else {
      result.push_back(entry);
    }
  }
  std::erase_if(result, [&](const NamedTensor& entry) { return replaced.contains(entry.name); });
  return result;
}

StateDict separate_projections(const StateDict& state) {
  constexpr const char* op = "separate_projections";
  const Tape::Pause pause;
  StateDict result;
  for (const NamedTensor& entry : state) {
    const auto prefix = prefix_before(entry.name, "in_proj_weight");
    if (!prefix) {
      result.push_back(entry);
      continue;
    }
    check_rank(op, entry.name, entry.tensor, 2);
    const std::int64_t dim = entry.tensor.size(1), rest = entry.tensor.size(0) - dim;
    if (rest < 2 || rest % 2 != 0)
      throw ShapeError(op, "\"" + entry.name + "\", " + describe(entry.tensor.detach()) +
                               ": its rows are not those of q, k and v");
    const std::vector<Tensor> rows = split(entry.tensor, {dim, rest / 2, rest / 2});
    for (std::size_t i = 0; i < parts.size(); ++i)
      result.push_back({*prefix + std::string(parts[i]) + "_weight", rows[i]});
  }
  return result;
}

}  // namespace tapehead::nn
