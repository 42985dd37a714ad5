#include <tapehead/core/error.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/internal/near_names.h>
#include <tapehead/graph/internal/whatif_slots.h>

#include <set>
#include <string_view>

namespace tapehead::graph {
namespace {

// A slot that can be asked for, by the names under which it is found.
struct Named {
  std::int64_t slot;
  std::string label, without_numbers;
};

std::vector<Named> names_of(const Labels& labels) {
  const Graph& graph = labels.graph();
  std::vector<Named> names;
  for (std::int64_t i = 0; i < std::ssize(graph.saved); ++i)
    if (!node_of(graph, graph.saved[at(i)]).recomputed && graph.saved[at(i)].packing < 0)
      names.push_back({i, labels.slot(i), labels.slot_without_numbers(i)});
  return names;
}

void choose(const Graph& graph, const std::vector<Named>& names, const std::string& pattern,
            ChosenSlots& slots) {
  bool any = false;
  const std::string* staying = nullptr;
  for (const auto& [slot, label, without_numbers] : names) {
    if (!matches_whole(pattern, label) && !matches_whole(pattern, without_numbers)) continue;
    const bool is_result = value_of(graph, graph.saved[at(slot)]).producer >= 0;
    (is_result ? slots.chosen : slots.stays)[at(slot)] = true;
    any = any || is_result;
    if (!is_result && !staying) staying = &label;
  }
  if (any) return;
  if (staying)
    throw ValueError("whatif", *staying + " is no result of an operation that could run again");
  std::set<std::string_view> labels;
  for (const Named& name : names) labels.insert(name.label);
  throw ValueError("whatif",
                   "no saved slot matches \"" + pattern + "\"" + near_names(pattern, labels));
}

}  // namespace

ChosenSlots choose_slots(const Graph& graph, const std::vector<std::string>& patterns) {
  const std::vector<Named> names = names_of(Labels(graph));
  const std::vector<bool> none(graph.saved.size(), false);
  ChosenSlots slots{none, none};
  for (const std::string& pattern : patterns) choose(graph, names, pattern, slots);
  return slots;
}

}  // namespace tapehead::graph
