// Findings as text and as JSON.
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/text.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace tapehead::graph {
namespace {

using nlohmann::json;

const Graph::SavedSlot& slot_of(const Graph& graph, const Finding& finding) {
  return graph.saved[at(finding.slot)];
}

// ": bool (2, 3, 8, 8), kept by 2 more".
std::string kept_text(const Graph& graph, const Finding& finding) {
  const std::string kept = ": " + describe(value_of(graph, slot_of(graph, finding)));
  if (finding.others == 0) return kept;
  return kept + ", kept by " + format_count(finding.others) + " more";
}

// Findings that differ in the numbers of their modules alone, as those of a stack's layers, in the
// order of the first of each.
std::vector<std::vector<const Finding*>> folded(const Labels& labels,
                                                const std::vector<Finding>& findings) {
  std::vector<std::vector<const Finding*>> groups;
  std::map<std::tuple<std::string_view, std::int64_t, std::string>, std::size_t> known;
  for (const Finding& finding : findings) {
    const auto [group, is_new] = known.try_emplace(
        {finding.rule, finding.freed,
         label_without_numbers(labels.slot(finding.slot)) + kept_text(labels.graph(), finding)},
        groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(&finding);
  }
  return groups;
}

std::string group_text(const Labels& labels, const std::vector<const Finding*>& group) {
  const Finding& first = *group.front();
  const std::int64_t count = std::ssize(group);
  const std::string kept = kept_text(labels.graph(), first);
  std::string rule(first.rule), what = labels.slot(first.slot) + kept;
  if (count > 1) {
    rule += " x " + format_count(count);
    what = label_without_numbers(labels.slot(first.slot)) + kept + "; " +
           format_bytes(first.freed) + " each";
  }
  return left(60, rule) + right(40, format_bytes(count * first.freed)) + "\n" + wrapped(what, 4) +
         wrapped(first.mending, 4);
}

}  // namespace

std::string lint_text(const Graph& graph, const std::vector<Finding>& findings) {
  if (findings.empty()) return "no findings\n";
  std::string text = left(60, "rule, what is saved, and how to mend it") +
                     right(40, "mending frees") + "\n" + std::string(page_columns, '-') + "\n";
  const Labels labels(graph);
  for (const auto& group : folded(labels, findings)) text += group_text(labels, group);
  return text + std::string(page_columns, '-') +
         "\nfindings: " + format_count(std::ssize(findings)) +
         "; the whole graph saves activations of " + format_bytes(graph.saved_activation_bytes()) +
         "\n";
}

std::string lint_json(const Graph& graph, const std::vector<Finding>& findings) {
  const Labels labels(graph);
  json all = json::array();
  for (const Finding& finding : findings) {
    const Graph::SavedSlot& slot = slot_of(graph, finding);
    const Graph::Node& node = node_of(graph, slot);
    const Graph::Value& value = value_of(graph, slot);
    all.push_back({{"rule", finding.rule},
                   {"label", labels.slot(finding.slot)},
                   {"operation", node.operation},
                   {"module", node.module},
                   {"slot", slot.slot},
                   {"shape", std::vector<std::int64_t>(value.shape.begin(), value.shape.end())},
                   {"dtype", to_string(value.dtype)},
                   {"other_slots", finding.others},
                   {"freed_bytes", finding.freed},
                   {"mending", finding.mending}});
  }
  return json_report(json{{"findings", std::move(all)}});
}

}  // namespace tapehead::graph
