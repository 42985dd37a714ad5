#include <tapehead/core/count.h>
#include <tapehead/graph/internal/assertion_figures.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/filter.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/timeline.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace tapehead::graph {
namespace {

FilterPatterns patterns(const FigureFilter& by) {
  return {.name = by.name, .operation = by.operation, .module = by.module};
}

// Calls f(slot) for the slots that the filter takes.
template <class F>
void for_each_slot(const Graph& graph, const FigureFilter& by, F&& f) {
  const Filter filter(graph, patterns(by));
  for (std::int64_t i = 0; i < std::ssize(graph.saved); ++i)
    if (filter.takes_slot(i)) f(graph.saved[at(i)]);
}

// Calls f(node) for the operations that it takes.
template <class F>
void for_each_node(const Graph& graph, const FigureFilter& by, F&& f) {
  const Filter filter(graph, patterns(by));
  for (std::int64_t i = 0; i < std::ssize(graph.nodes); ++i)
    if (filter.takes_node(i)) f(graph.nodes[at(i)]);
}

template <bool with_what_exists_anyway>
std::int64_t saved(const Graph& graph, const FigureFilter& by) {
  const Keepers keepers(graph);
  std::set<Kept> counted;
  std::int64_t bytes = 0;
  for_each_slot(graph, by, [&](const Graph::SavedSlot& slot) {
    if (!with_what_exists_anyway && exists_anyway(graph, slot)) return;
    if (counted.insert(kept_by(graph, slot)).second)
      bytes = count_sum(bytes, keepers.retained(slot));
  });
  return bytes;
}

std::int64_t slots(const Graph& graph, const FigureFilter& by) {
  std::int64_t count = 0;
  for_each_slot(graph, by, [&](const auto&) { ++count; });
  return count;
}

std::int64_t square(const Graph& graph, const FigureFilter& by) {
  std::set<Kept> counted;
  for_each_slot(graph, by, [&](const Graph::SavedSlot& slot) {
    const Shape& shape = value_of(graph, slot).shape;
    if (std::count(shape.begin(), shape.end(), by.size) >= 2) counted.insert(kept_by(graph, slot));
  });
  return std::ssize(counted);
}

std::int64_t count(const Graph& graph, const FigureFilter& by) {
  std::int64_t count = 0;
  for_each_node(graph, by, [&](const Graph::Node&) { ++count; });
  return count;
}

std::int64_t flops(const Graph& graph, const FigureFilter& by) {
  std::int64_t sum = 0;
  for_each_node(graph, by, [&](const Graph::Node& node) { sum = count_sum(sum, node.flops); });
  return sum;
}

std::int64_t peak(const Graph& graph, const FigureFilter&) {
  const Timeline line = timeline(graph, "assert");
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
  FilterPatterns all = patterns(by);
  if (figure.tells_absence) all.operation = {};
  return Filter(graph, all).unmatched();
}

}  // namespace tapehead::graph
