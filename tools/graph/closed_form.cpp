#include <tapehead/core/error.h>
#include <tapehead/graph/closed_form.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/timeline.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tapehead::graph {
namespace {

// ---- sampling ----------------------------------------------------------------------------------

void check(std::span<const Dimension> dimensions) {
  if (dimensions.empty()) throw ValueError("closed_forms", "there is no dimension");
  for (const Dimension& dimension : dimensions) {
    const std::set<std::int64_t> distinct(dimension.sizes.begin(), dimension.sizes.end());
    if (dimension.degree < 0 || distinct.size() != dimension.sizes.size() ||
        std::ssize(dimension.sizes) < dimension.degree + 2)
      throw ValueError("closed_forms", "dimension " + dimension.name + " of degree " +
                                           std::to_string(dimension.degree) +
                                           " needs at least degree + 2 distinct sizes");
  }
}

std::vector<Axis> axes_of(std::span<const Dimension> dimensions) {
  std::vector<Axis> axes;
  for (const Dimension& dimension : dimensions)
    axes.push_back({dimension.name,
                    {dimension.sizes.begin(), dimension.sizes.begin() + dimension.degree + 1}});
  return axes;
}

using Point = std::vector<std::int64_t>;

// All points of the grid, the last axis running fastest.
std::vector<Point> grid_of(const std::vector<Axis>& axes) {
  std::vector<Point> points{{}};
  for (const Axis& axis : axes) {
    std::vector<Point> longer;
    for (const Point& point : points)
      for (const std::int64_t node : axis.nodes) {
        longer.push_back(point);
        longer.back().push_back(node);
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<Point> comparisons(std::span<const Dimension> dimensions) {
  Point first, last;
  for (const Dimension& dimension : dimensions) {
    first.push_back(dimension.sizes.front());
    last.push_back(dimension.sizes.back());
  }
  std::vector<Point> points{last};
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    for (std::size_t i = at(dimensions[d].degree) + 1; i < dimensions[d].sizes.size(); ++i) {
      points.push_back(first);
      points.back()[d] = dimensions[d].sizes[i];
    }
  return points;
}

std::int64_t quantity_of(const Quantities& quantities, const std::string& name) {
  const auto found = quantities.find(name);
  return found == quantities.end() ? 0 : found->second;
}

// What was measured where. The points of the grid come first.
struct Samples {
  std::vector<Axis> axes = {};
  std::size_t on_grid = 0;
  std::vector<Point> points = {};
  std::vector<Quantities> values = {};

  std::optional<Polynomial> form_of(const std::string& name) const {
    std::vector<std::int64_t> nodes;
    for (std::size_t i = 0; i < on_grid; ++i) nodes.push_back(quantity_of(values[i], name));
    std::optional<Polynomial> form = interpolate(axes, nodes);
    for (std::size_t i = on_grid; form && i < points.size(); ++i)
      if (!agrees(*form, points[i], quantity_of(values[i], name))) form.reset();
    return form;
  }

  static bool agrees(const Polynomial& form, const Point& point, std::int64_t value) {
    try {
      return form(point) == value;
    } catch (const ValueError&) {
      return false;
    }
  }
};

// ---- what is measured on a graph ---------------------------------------------------------------

// Turns graphs into quantities, and remembers which rows of slots it met.
class Meter {
 public:
  Quantities measure(const Graph& graph) {
    Quantities sums{{"saved activations", graph.saved_activation_bytes()},
                    {"saved", graph.saved_bytes()},
                    {"flops", graph.forward_flops()},
                    {"recomputed", graph.recomputed_flops()}};
    if (!graph.events.empty()) sums["peak"] = timeline(graph).peak;
    add_slots(graph, sums);
    return sums;
  }

  const std::vector<SavedForm>& rows() const { return rows_; }

  static std::string bytes_name(const SavedForm& row) { return "bytes of " + key_of(row); }
  static std::string added_name(const SavedForm& row) { return "added by " + key_of(row); }

 private:
  struct Row {
    std::set<Kept> keeps;
    std::int64_t bytes = 0, added = 0;
  };

  void add_slots(const Graph& graph, Quantities& sums) {
    const Labels labels(graph);
    std::unordered_map<std::string, Row> rows;
    std::set<Kept> counted;
    for (const Graph::SavedSlot& slot : graph.saved) {
      if (node_of(graph, slot).recomputed) continue;
      add(graph, slot, rows[key_of(row_of(labels, slot))], counted);
    }
    for (const SavedForm& form : rows_) {
      sums[bytes_name(form)] = rows[key_of(form)].bytes;
      sums[added_name(form)] = rows[key_of(form)].added;
    }
  }

  static void add(const Graph& graph, const Graph::SavedSlot& slot, Row& row,
                  std::set<Kept>& counted) {
    const Kept kept = kept_by(graph, slot);
    const auto& [is_packed, id] = kept;
    const std::int64_t bytes =
        is_packed ? graph.packings[at(id)].bytes : graph.storages[at(id)].bytes;
    if (row.keeps.insert(kept).second) row.bytes += bytes;
    if (!exists_anyway(graph, slot) && counted.insert(kept).second) row.added += bytes;
  }

  // By which rows of several runs are one, whether or not others have the same name there.
  static std::string key_of(SavedForm form) {
    form.is_one_of_several = true;
    return to_string(form);
  }

  const SavedForm& row_of(const Labels& labels, const Graph::SavedSlot& slot) {
    const Graph::Node& node = node_of(labels.graph(), slot);
    SavedForm form{.module = without_numbers(node.module),
                   .operation = node.operation,
                   .occurrence = labels.occurrence(slot.node),
                   .is_one_of_several = labels.is_one_of_several(slot.node),
                   .slot = slot.slot,
                   .reason = slot.reason,
                   .bytes = {},
                   .added = {}};
    const auto [known, is_new] = by_name_.try_emplace(key_of(form), rows_.size());
    if (is_new) rows_.push_back(std::move(form));
    else if (form.is_one_of_several) rows_[known->second].is_one_of_several = true;
    return rows_[known->second];
  }

  std::vector<SavedForm> rows_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

Samples sample(const std::function<Quantities(DimensionSizes)>& measure,
               std::span<const Dimension> dimensions) {
  check(dimensions);
  Samples samples;
  samples.axes = axes_of(dimensions);
  samples.points = grid_of(samples.axes);
  samples.on_grid = samples.points.size();
  for (Point& point : comparisons(dimensions)) samples.points.push_back(std::move(point));
  for (const Point& point : samples.points) samples.values.push_back(measure(point));
  return samples;
}

}  // namespace

std::map<std::string, std::optional<Polynomial>> closed_forms(
    const std::function<Quantities(DimensionSizes)>& measure,
    std::span<const Dimension> dimensions) {
  const Samples samples = sample(measure, dimensions);
  std::map<std::string, std::optional<Polynomial>> forms;
  for (const Quantities& quantities : samples.values)
    for (const auto& [name, value] : quantities)
      if (!forms.contains(name)) forms[name] = samples.form_of(name);
  return forms;
}

GraphForms closed_forms(const std::function<Graph(DimensionSizes)>& model,
                        std::span<const Dimension> dimensions,
                        const std::function<Quantities(const Graph&)>& others) {
  Meter meter;
  const std::string prefix = "others: ";
  auto all = closed_forms(
      [&](DimensionSizes sizes) {
        const Graph graph = model(sizes);
        Quantities sums = meter.measure(graph);
        if (others)
          for (const auto& [name, value] : others(graph)) sums[prefix + name] = value;
        return sums;
      },
      dimensions);
  GraphForms forms{.saved_activations = all["saved activations"],
                   .saved = all["saved"],
                   .flops = all["flops"],
                   .recomputed = all["recomputed"],
                   .peak = all["peak"],
                   .slots = meter.rows(),
                   .others = {}};
  for (SavedForm& row : forms.slots) {
    row.bytes = all[Meter::bytes_name(row)];
    row.added = all[Meter::added_name(row)];
  }
  for (auto& [name, form] : all)
    if (name.starts_with(prefix)) forms.others[name.substr(prefix.size())] = std::move(form);
  return forms;
}

std::string to_string(const SavedForm& form) {
  return place(numbered(form.operation, form.occurrence, form.is_one_of_several), form.module) +
         "." + form.slot;
}

}  // namespace tapehead::graph
