#include <tapehead/core/error.h>
#include <tapehead/graph/assertion.h>
#include <tapehead/graph/html.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/letters.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/internal/near_names.h>
#include <tapehead/graph/internal/page.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/io/strict_json.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace tapehead::graph {
namespace {

using nlohmann::json;
using std::string_view_literals::operator""sv;

constexpr std::string_view viewer_page =
#include "viewer.html.inc"
    ""sv;  // whose length the compiler knows: counting so much goes beyond what it will do

std::string element(const char* id, std::string_view data) {
  return std::string("<script type=\"application/json\" id=\"") + id + "\">" + script_data(data) +
         "</script>\n";
}

json findings_of(const Graph& graph) {
  json all = json::array();
  for (const Finding& finding : lint(graph))
    all.push_back({{"rule", finding.rule},
                   {"mending", finding.mending},
                   {"slot", finding.slot},
                   {"others", finding.others},
                   {"freed", finding.freed}});
  return all;
}

json budget_of(const Graph& graph, const std::string& budget) {
  const Assertion assertion = check_assertion(graph, budget);
  json figures = json::array();
  for (const Assertion::Comparison& comparison : assertion.comparisons)
    figures.push_back({{"text", comparison.text},
                       {"figure", comparison.figure},
                       {"in_bytes", comparison.in_bytes},
                       {"holds", comparison.holds}});
  return {{"text", budget}, {"holds", assertion.holds}, {"comparisons", figures}};
}

json budgets_of(const Graph& graph, const std::vector<std::string>& budgets) {
  json all = json::array();
  for (const std::string& budget : budgets) all.push_back(budget_of(graph, budget));
  return all;
}

// Of the graph that is compared, which may have none of what a filter names: the page tells.
json other_budgets_of(const Graph& graph, const std::vector<std::string>& budgets) {
  json all = json::array();
  for (const std::string& budget : budgets) {
    try {
      all.push_back(budget_of(graph, budget));
    } catch (const ValueError& error) {
      all.push_back({{"text", budget}, {"problem", error.what()}});
    }
  }
  return all;
}

json sizes_of(const std::map<std::string, std::int64_t>& sizes) {
  for (const auto& [name, size] : sizes) {
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_letter) || size < 1)
      throw ValueError("graph html", "the size " + name + "=" + std::to_string(size) +
                                         " is no name of letters with a positive number");
  }
  return sizes;
}

// Whether the module, or one below it, ran: also in a checkpoint, of which a tape may know no more.
bool runs_in(const Graph& graph, std::string_view module) {
  return std::ranges::any_of(graph.nodes, [&](const Graph::Node& node) {
    return lies_in(node.module, module) ||
           (node.operation == "checkpoint" && lies_in(module, node.module));
  });
}

void check_modules(const Graph& graph, const json& maps) {
  for (const json& map : maps) {
    const std::string module = map.at("module");
    if (runs_in(graph, module)) continue;
    std::set<std::string_view> names;
    for (const Graph::Node& node : graph.nodes) names.insert(node.module);
    throw ValueError("graph html",
                     "the attention maps are of another model: no module of the graph is \"" +
                         fit_label(module, 60) + "\"" + near_names(module, names));
  }
}

std::string attention_of(const Graph& graph, const std::string& text) {
  const json maps = [&] {
    try {
      return io::parse_json(text);
    } catch (const io::JsonError& error) {
      throw ValueError("graph html", std::string("the attention maps: ") + error.what());
    }
  }();
  if (!maps.is_object() || maps.value("format", json()) != "tapehead-attention/1")
    throw ValueError("graph html", "the attention maps are not of format tapehead-attention/1");
  try {
    check_modules(graph, maps.at("maps"));
  } catch (const json::exception&) {
    throw ValueError("graph html", "the attention maps: a map has no module");
  }
  return json_line(maps);
}

}  // namespace

std::string to_html(const Graph& graph, const HtmlOptions& options) {
  json about = {{"title", options.title},
                {"file", options.file},
                {"other_file", options.other_file},
                {"findings", findings_of(graph)},
                {"budgets", budgets_of(graph, options.budgets)},
                {"sizes", sizes_of(options.sizes)}};
  if (options.other) {
    about["other_findings"] = findings_of(*options.other);
    about["other_budgets"] = other_budgets_of(*options.other, options.budgets);
  }
  std::string data = element("about", json_line(about)) + element("graph", to_json(graph));
  if (options.other) data += element("other", to_json(*options.other));
  if (!options.attention.empty())
    data += element("attention", attention_of(graph, options.attention));
  return with_data(viewer_page, data);
}

}  // namespace tapehead::graph
