// Findings as text and as JSON.
#include <tapehead/graph/at.h>
#include <tapehead/graph/json_text.h>
#include <tapehead/graph/labels.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/text.h>

#include <nlohmann/json.hpp>

namespace tapehead::graph {
namespace {

using nlohmann::json;

const Graph::SavedSlot& slot_of(const Graph& graph, const Finding& finding) {
  return graph.saved[at(finding.slot)];
}

std::string finding_text(const Graph& graph, const Finding& finding) {
  const Graph::SavedSlot& slot = slot_of(graph, finding);
  std::string kept = slot_label(graph, slot) + ": " + describe(value_of(graph, slot));
  if (finding.others > 0) kept += ", kept by " + format_count(finding.others) + " more";
  return left(60, std::string(finding.rule)) + right(40, format_bytes(finding.freed)) + "\n" +
         wrapped(kept, 4) + wrapped(finding.mending, 4);
}

}  // namespace

std::string lint_text(const Graph& graph, const std::vector<Finding>& findings) {
  if (findings.empty()) return "no findings\n";
  std::string text = left(60, "rule, what is saved, and how to mend it") +
                     right(40, "mending frees") + "\n" + std::string(page_columns, '-') + "\n";
  for (const Finding& finding : findings) text += finding_text(graph, finding);
  return text + std::string(page_columns, '-') +
         "\nfindings: " + format_count(std::ssize(findings)) +
         "; the whole graph saves activations of " + format_bytes(graph.saved_activation_bytes()) +
         "\n";
}

std::string lint_json(const Graph& graph, const std::vector<Finding>& findings) {
  json all = json::array();
  for (const Finding& finding : findings) {
    const Graph::SavedSlot& slot = slot_of(graph, finding);
    const Graph::Node& node = node_of(graph, slot);
    const Graph::Value& value = value_of(graph, slot);
    all.push_back({{"rule", finding.rule},
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
