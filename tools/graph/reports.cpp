#include <tapehead/core/count.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/module_tree.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace tapehead::graph {
namespace {

using nlohmann::json;

const std::string rule_line = std::string(page_columns, '-') + "\n";

// ---- summary -----------------------------------------------------------------------------------

struct Summary {
  explicit Summary(const Graph& graph) : modules(folded(module_sums(graph))) {
    for (const Graph::Node& node : graph.nodes) donatable += std::ssize(node.donatable);
    if (graph.events.empty()) {
      for (const Graph::Storage& storage : graph.storages) {
        std::int64_t& sum = bytes[static_cast<std::size_t>(storage.category)];
        sum = count_sum(sum, storage.bytes);
      }
      return;
    }
    const Timeline line = timeline(graph);
    peak = line.peak;
    peak_step = line.peak_step;
    for (const BytesByCategory& after : line.after)
      for (std::size_t c = 0; c < category_count; ++c) bytes[c] = std::max(bytes[c], after[c]);
  }
  std::int64_t of(Category category) const { return bytes[static_cast<std::size_t>(category)]; }
  // Of a category that a tape alone does not see.
  std::optional<std::int64_t> seen_by_ledger(Category category) const {
    if (!peak && of(category) == 0) return {};
    return of(category);
  }

  ModuleSums modules;
  BytesByCategory bytes{};
  std::optional<std::int64_t> peak = {};  // known when a ledger watched
  std::int64_t peak_step = -1;
  std::int64_t donatable = 0;  // inputs
};

std::string sum_line(const std::string& what, const std::string& sum) {
  return left(30, what) + right(40, sum) + "\n";
}

std::string format_known(std::optional<std::int64_t> bytes) {
  return bytes ? format_bytes(*bytes) : "unknown: not a ledger's graph";
}

json to_json(const ModuleSums& sums) {
  json children = json::array();
  for (const ModuleSums& child : sums.children) children.push_back(to_json(child));
  return {{"name", sums.name},
          {"repeats", sums.repeats},
          {"operations", sums.operations},
          {"saved_activation_bytes", sums.activations},
          {"saved_other_bytes", sums.others},
          {"flops", sums.flops},
          {"children", std::move(children)}};
}

// The two keys of a report by module: the modules, and what no module counts.
void add_modules(const ModuleSums& all, json& report) {
  report["modules"] = std::move(to_json(all)["children"]);
  report["root"] = to_json(own_sums(all));
}

// ---- flops -------------------------------------------------------------------------------------

struct OperationSums {
  std::int64_t count = 0, flops = 0;
};

struct Flops {
  explicit Flops(const Graph& graph) : modules(folded(module_sums(graph))) {
    for (const Graph::Node& node : graph.nodes) {
      OperationSums& sums = node.recomputed ? recomputed : operations[node.operation];
      ++sums.count;
      sums.flops = count_sum(sums.flops, node.flops);
    }
  }
  ModuleSums modules;
  std::map<std::string, OperationSums> operations;
  OperationSums recomputed;
};

std::string flops_row(const std::string& name, std::int64_t count, std::int64_t flops,
                      std::int64_t total) {
  return left(50, fit_label(name, 50)) + right(10, format_count(count)) +
         right(28, format_count(flops)) + right(12, format_share(flops, total)) + "\n";
}

std::string flops_head(const std::string& what) {
  return left(50, what) + right(10, "ops") + right(28, "flops, forward") + right(12, "share") +
         "\n" + rule_line;
}

std::string flops_by_operation(const Flops& flops) {
  std::vector<std::pair<std::string, OperationSums>> rows(flops.operations.begin(),
                                                          flops.operations.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  std::string text = flops_head("operation");
  for (const auto& [name, sums] : rows)
    text += flops_row(name, sums.count, sums.flops, flops.modules.flops);
  return text;
}

// ---- peak --------------------------------------------------------------------------------------

std::string peak_row(const std::string& name, std::int64_t bytes, std::int64_t total) {
  return left(20, name) + right(32, format_bytes(bytes)) + right(12, format_share(bytes, total)) +
         "\n";
}

// The largest first; what is not live has no row.
std::string peak_by_category(const Timeline& line) {
  std::vector<std::pair<std::int64_t, std::string>> rows{{line.unwatched, "unwatched"}};
  for (std::size_t c = 0; c < category_count; ++c)
    rows.emplace_back(line.at_peak[c], to_string(categories[c]));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text =
      left(20, "in all") + right(32, "bytes") + right(12, "share") + "\n" + rule_line;
  for (const auto& [sum, name] : rows)
    if (sum > 0) text += peak_row(name, sum, line.peak);
  return text + rule_line + peak_row("peak", line.peak, line.peak);
}

}  // namespace

std::string summary_text(const Graph& graph) {
  const Summary sums(graph);
  std::string text = sum_line("saved activations", format_bytes(graph.saved_activation_bytes()));
  text += sum_line("saved parameters, inputs",
                   format_bytes(graph.saved_bytes() - graph.saved_activation_bytes()));
  text += sum_line("peak", format_known(sums.peak));
  if (sums.peak) text += wrapped("at " + place_of_step(graph, sums.peak_step), 4);
  text += sum_line("parameters", format_bytes(sums.of(Category::parameter)));
  text += sum_line("gradients", format_known(sums.seen_by_ledger(Category::gradient)));
  text += sum_line("optimizer state", format_known(sums.seen_by_ledger(Category::optimizer_state)));
  text += sum_line("operations", format_count(sums.modules.operations));
  if (sums.donatable > 0) text += sum_line("donatable inputs", format_count(sums.donatable));
  text += sum_line("flops, forward", format_count(sums.modules.flops));
  if (const std::int64_t recomputed = graph.recomputed_flops(); recomputed > 0)
    text += sum_line("flops, recomputed", format_count(recomputed));
  return text + "\n" + saved_table(graph);
}

std::string summary_json(const Graph& graph) {
  const Summary sums(graph);
  json report = {{"saved_activation_bytes", graph.saved_activation_bytes()},
                 {"saved_bytes", graph.saved_bytes()},
                 {"parameter_bytes", sums.of(Category::parameter)},
                 {"operations", sums.modules.operations},
                 {"donatable_inputs", sums.donatable},
                 {"flops", sums.modules.flops},
                 {"recomputed_flops", graph.recomputed_flops()}};
  add_modules(sums.modules, report);
  for (const auto& [key, category] :
       {std::pair{"gradient_bytes", Category::gradient},
        std::pair{"optimizer_state_bytes", Category::optimizer_state}})
    if (const auto bytes = sums.seen_by_ledger(category)) report[key] = *bytes;
  if (sums.peak) {
    report["peak_bytes"] = *sums.peak;
    report["peak_step"] = sums.peak_step;
  }
  return json_report(report);
}

std::string flops_text(const Graph& graph) {
  const Flops flops(graph);
  const ModuleSums& all = flops.modules;
  std::string text = flops_head("module");
  for (const ModuleRow& row : table_rows(all))
    text += flops_row(row.label, row.sums.operations, row.sums.flops, all.flops);
  text += rule_line + flops_row("total", all.operations, all.flops, all.flops) + "\n";
  text += flops_by_operation(flops);
  if (flops.recomputed.count > 0)
    text += "beside these, recomputed within rules: " + format_count(flops.recomputed.count) +
            " operations, " + format_count(flops.recomputed.flops) + " flops\n";
  return text;
}

std::string flops_json(const Graph& graph) {
  const Flops flops(graph);
  const auto entry = [](const OperationSums& sums) {
    return json{{"count", sums.count}, {"flops", sums.flops}};
  };
  json report = {{"flops", flops.modules.flops},
                 {"operations", json::object()},
                 {"recomputed", entry(flops.recomputed)}};
  add_modules(flops.modules, report);
  for (const auto& [name, sums] : flops.operations) report["operations"][name] = entry(sums);
  return json_report(report);
}

std::string peak_text(const Graph& graph, std::size_t limit) {
  const Timeline line = timeline(graph, "peak");
  const std::vector<std::string> why = reasons(graph);
  std::string text =
      wrapped("peak " + format_bytes(line.peak) + " at " + place_of_step(graph, line.peak_step), 0);
  if (line.unwatched > 0)
    text += format_bytes(line.unwatched) + " of it were live before, and met by no operation\n";
  text += "\n" + left(20, "category") + right(32, "bytes") + "\n" + rule_line;
  for (std::size_t k = 0; k < std::min(limit, line.live_at_peak.size()); ++k) {
    const auto id = static_cast<std::size_t>(line.live_at_peak[k]);
    const Graph::Storage& storage = graph.storages[id];
    text += left(20, std::string(to_string(storage.category))) +
            right(32, format_bytes(storage.bytes)) + "\n" + wrapped(why[id], 4);
  }
  if (line.live_at_peak.size() > limit)
    text += "and " +
            format_count(std::ssize(line.live_at_peak) - static_cast<std::int64_t>(limit)) +
            " more\n";
  return text + "\n" + peak_by_category(line);
}

std::string peak_json(const Graph& graph) {
  const Timeline line = timeline(graph, "peak");
  const std::vector<std::string> why = reasons(graph);
  json live = json::array();
  for (const std::int64_t id : line.live_at_peak) {
    const Graph::Storage& storage = graph.storages[static_cast<std::size_t>(id)];
    live.push_back({{"storage", id},
                    {"bytes", storage.bytes},
                    {"category", to_string(storage.category)},
                    {"reason", why[static_cast<std::size_t>(id)]}});
  }
  return json_report({{"peak_bytes", line.peak},
                      {"peak_step", line.peak_step},
                      {"category_bytes", json_of(line.at_peak)},
                      {"unwatched_bytes", line.unwatched},
                      {"live", std::move(live)}});
}

}  // namespace tapehead::graph
