#include <tapehead/core/count.h>
#include <tapehead/graph/assertion_figures.h>
#include <tapehead/graph/at.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/keepers.h>
#include <tapehead/graph/maker.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/unmatched.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

bool is_chosen(const Graph::Node& node, const FigureFilter& by) {
  return !node.recomputed && matches(by.operation, node.operation) &&
         matches_module(by.module, node.module);
}

// Calls f(slot, value) for the slots that the filter takes.
template <class F>
void for_each_slot(const Graph& graph, const FigureFilter& by, F&& f) {
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = value_of(graph, slot);
    if (is_chosen(node_of(graph, slot), by) && matches(by.name, name_label(graph, slot.value)))
      f(slot, value);
  }
}

// A packing or a storage.
std::pair<bool, std::int64_t> kept_by(const Graph::SavedSlot& slot, const Graph::Value& value) {
  return slot.packing >= 0 ? std::pair(true, slot.packing) : std::pair(false, value.storage);
}

template <bool with_what_exists_anyway>
std::int64_t saved(const Graph& graph, const FigureFilter& by) {
  const Keepers keepers(graph);
  std::set<std::pair<bool, std::int64_t>> counted;
  std::int64_t bytes = 0;
  for_each_slot(graph, by, [&](const Graph::SavedSlot& slot, const Graph::Value& value) {
    if (!with_what_exists_anyway && exists_anyway(graph, slot)) return;
    if (counted.insert(kept_by(slot, value)).second)
      bytes = count_sum(bytes, keepers.retained(slot));
  });
  return bytes;
}

std::int64_t slots(const Graph& graph, const FigureFilter& by) {
  std::int64_t count = 0;
  for_each_slot(graph, by, [&](const auto&, const auto&) { ++count; });
  return count;
}

std::int64_t square(const Graph& graph, const FigureFilter& by) {
  std::set<std::pair<bool, std::int64_t>> counted;
  for_each_slot(graph, by, [&](const Graph::SavedSlot& slot, const Graph::Value& value) {
    if (std::count(value.shape.begin(), value.shape.end(), by.size) >= 2)
      counted.insert(kept_by(slot, value));
  });
  return std::ssize(counted);
}

std::int64_t count(const Graph& graph, const FigureFilter& by) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Graph::Node& node) { return is_chosen(node, by); });
}

std::int64_t flops(const Graph& graph, const FigureFilter& by) {
  std::int64_t sum = 0;
  for (const Graph::Node& node : graph.nodes)
    if (is_chosen(node, by)) sum = count_sum(sum, node.flops);
  return sum;
}

std::int64_t peak(const Graph& graph, const FigureFilter&) {
  const Timeline line = timeline(graph);
  return line.peak - line.unwatched;
}

constexpr std::array figures = {
    Figure{"saved", true, true, true, false, false, saved<false>},
    Figure{"saved_all", true, true, true, false, false, saved<true>},
    Figure{"slots", false, true, true, false, false, slots},
    Figure{"square", false, true, true, true, false, square},
    Figure{"count", false, false, true, false, true, count},
    Figure{"flops", false, false, true, false, false, flops},
    Figure{"peak", true, false, false, false, false, peak},
};

}  // namespace

const Figure* find_figure(std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const Figure& figure) { return figure.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::string unmatched(const Graph& graph, const Figure& figure, const FigureFilter& by) {
  return unmatched(graph, {.name = by.name,
                           .operation = figure.tells_absence ? "" : std::string_view(by.operation),
                           .module = by.module});
}

}  // namespace tapehead::graph
