#include "report.h"

#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "choices.h"

namespace tapehead::program {
namespace {

using graph::format_bytes;
using graph::format_count;
using graph::left;
using graph::right;
using nlohmann::json;

const char* const reserved_text =
    "Counted are the bytes that tensors ask for at the peak, and in \"reserved at most\" also what "
    "their buffers may be rounded up by: an eighth of them, and 64 bytes for each buffer of the "
    "step, which is most of it where buffers are small. set_memory_limit() holds a process to "
    "reserved bytes: buffers that are kept for reuse are then given back. Not counted are the "
    "workspaces of kernels and of BLAS, the records of the tape, and the process itself.";

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits: return "fits";
    case Verdict::may_fit: return "may fit";
    case Verdict::too_large: break;
  }
  return "does not fit";
}

std::int64_t parameter_count(const PlanReport& report) {
  return report.costs.parameters / static_cast<std::int64_t>(size_of(report.setup.model.dtype));
}

// ---- text --------------------------------------------------------------------------------------

std::string heading(const PlanReport& report) {
  const nn::GptOptions& m = report.setup.model;
  std::string text = report.name + ": " + format_count(parameter_count(report)) +
                     " parameters in " + format_count(m.layers) + " layers, " +
                     format_count(m.heads) + " heads, dim " + format_count(m.dim) + ", context " +
                     format_count(m.context) + ", vocabulary " + format_count(m.vocab_size) +
                     (m.tied_output ? ", tied output" : "");
  if (m.dropout > 0) text += ", dropout " + json(m.dropout).dump();
  text = graph::wrapped(text, 0);
  return text + graph::wrapped("A step of " + printed(optimizers, report.setup.optimizer) + " in " +
                                   printed(dtypes, m.dtype) + ", batch " +
                                   format_count(report.setup.batch) + ", " +
                                   printed(attention_paths, m.path) + " attention, checkpoint " +
                                   printed(checkpoints, m.checkpoint),
                               0);
}

std::string line(const std::string& what, const std::string& figure) {
  return left(40, what) + right(40, figure) + "\n";
}

std::string cost_lines(const Costs& costs) {
  std::string text = line("parameters, bytes", format_bytes(costs.parameters));
  text += line("gradients, bytes", format_bytes(costs.gradients));
  text += line("optimizer state, bytes", format_bytes(costs.optimizer_state));
  text += line("saved activations, bytes", format_bytes(costs.saved_activations));
  text += line("peak, bytes", format_bytes(costs.peak));
  text += graph::wrapped("at " + costs.peak_step + ", of which", 2);
  for (std::size_t c = 0; c < graph::category_count; ++c)
    if (costs.at_peak[c] > 0)
      text +=
          line("  " + std::string(to_string(graph::categories[c])), format_bytes(costs.at_peak[c]));
  text += line("reserved at most, bytes", format_bytes(costs.most_reserved));
  text += line("flops, forward", format_count(costs.flops));
  if (costs.recomputed > 0) text += line("flops, recomputed", format_count(costs.recomputed));
  return text;
}

std::string module_line(const std::string& name, const graph::ModuleSums& sums, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  return left(28, graph::fit_label(name, 28)) + right(18, format_count(sums.parameters / bytes)) +
         right(30, format_bytes(sums.activations)) + right(24, format_count(sums.flops)) + "\n";
}

std::string module_table(const PlanReport& report) {
  const DType dtype = report.setup.model.dtype;
  const std::string rule(graph::page_columns, '-');
  std::string text = left(28, "module") + right(18, "parameters, count") +
                     right(30, "saved activations, bytes") + right(24, "flops, forward") + "\n" +
                     rule + "\n";
  for (const graph::ModuleRow& row : graph::table_rows(report.costs.modules))
    text += module_line(row.label, row.sums, dtype);
  return text + rule + "\n" + module_line("total", report.costs.modules, dtype);
}

std::string memory_text(const PlanReport& report) {
  const Verdict decided = verdict(report.costs, *report.memory);
  std::string text = "\nmemory " + format_bytes(*report.memory) + ": " + to_string(decided);
  if (decided == Verdict::may_fit) text += ", depending on how buffers are rounded up";
  if (report.fit && report.fit->largest == 0)
    text += "; not even a " + report.fit->what + " of 1 fits for certain";
  else if (report.fit)
    text += "; " + format_count(report.fit->largest) + " is the largest " + report.fit->what +
            " that fits for certain";
  return text + "\n" + graph::wrapped(reserved_text, 2);
}

std::string milliseconds(double seconds) { return graph::fixed(1e3 * seconds, 3) + " ms"; }

std::string ranks_text(const PlanReport& report) {
  const RanksSetup& setup = report.ranks_setup;
  const RanksCosts& costs = *report.ranks;
  const double speedup =
      static_cast<double>(setup.ranks) * costs.computing / (costs.computing + costs.exposed);
  std::string text =
      "\n" +
      graph::wrapped(
          format_count(setup.ranks) +
              (setup.ranks == 1 ? " rank that averages its" : " ranks that average their") +
              " gradients, by ring all-reduce at " + format_number(setup.bytes_per_second / 1e9) +
              " GB/s and " + format_number(std::round(1e12 * setup.latency) / 1e6) +
              " us a message; estimated at " + format_number(setup.flops_per_second / 1e9) +
              " GFLOP/s for each rank's matrix products, and nothing else",
          0);
  text += line("gradients and a mark for each, in " + format_count(costs.buckets) +
                   (costs.buckets == 1 ? " bucket" : " buckets"),
               format_bytes(costs.gradient_bytes));
  text += line("sent by each rank in a step", format_bytes(costs.sent_bytes));
  text += line("forward and backward pass", milliseconds(costs.computing));
  text += line("communication", milliseconds(costs.communicating));
  text += line("  hidden behind the backward pass", milliseconds(costs.hidden));
  text += line("  exposed", milliseconds(costs.exposed));
  text += line("sequences a second, of one rank's", graph::fixed(speedup, 2) + " times");
  return text;
}

std::string form_text(const std::string& what, const std::optional<graph::Polynomial>& form,
                      const std::string& why_none = "none gives the figures of all these runs") {
  return what + "\n" +
         graph::wrapped(form ? graph::to_string(*form) : "no polynomial: " + why_none, 4);
}

// "From runs at L 4, 5, 6; B 1, 2, 3".
std::string tried_text(const std::vector<graph::Dimension>& dimensions) {
  std::string text;
  for (const graph::Dimension& dimension : dimensions) {
    text += (text.empty() ? "From runs at " : "; ") + dimension.name;
    const char* separator = " ";
    for (const std::int64_t size : dimension.sizes)
      text += std::exchange(separator, ", ") + format_count(size);
  }
  return text;
}

std::string why_no_peak(const std::set<std::string>& steps) {
  if (steps.size() < 2) return "none gives the peaks of all these runs";
  std::string text = "the peaks of these runs fall into different steps, and each has its own";
  const char* separator = ": ";
  for (const std::string& step : steps) text += std::exchange(separator, "; ") + step;
  return text;
}

std::string forms_text(const PlanReport& report) {
  const FormsNear& forms = *report.forms;
  std::string text =
      "\nClosed forms, in L layers, B sequences, h heads, T positions, d features, V tokens.\n" +
      graph::wrapped(tried_text(forms.tried), 0) + "\n";
  for (const std::string name : {"parameters", "gradients", "optimizer state"})
    text += form_text(name + ", bytes", forms.others.at(name));
  text += form_text("saved activations, bytes", forms.saved_activations);
  text += form_text("peak near these sizes, bytes", forms.peak, why_no_peak(forms.peak_steps));
  text += form_text("flops, forward", forms.flops);
  if (report.costs.recomputed > 0) text += form_text("flops, recomputed", forms.recomputed);
  text +=
      "\nSaved activations by slot, in bytes; what an earlier slot keeps is not listed again:\n\n";
  for (const graph::SavedForm& row : forms.slots)
    if (!row.added || !row.added->terms().empty()) text += form_text(to_string(row), row.added);
  return text;
}

// ---- JSON --------------------------------------------------------------------------------------

json ranks_json(const PlanReport& report) {
  const RanksSetup& setup = report.ranks_setup;
  const RanksCosts& costs = *report.ranks;
  return {{"ranks", setup.ranks},
          {"bytes_per_second", setup.bytes_per_second},
          {"latency_seconds", setup.latency},
          {"flops_per_second", setup.flops_per_second},
          {"gradient_bytes", costs.gradient_bytes},
          {"buckets", costs.buckets},
          {"sent_bytes", costs.sent_bytes},
          {"computing_seconds", costs.computing},
          {"communicating_seconds", costs.communicating},
          {"hidden_seconds", costs.hidden},
          {"exposed_seconds", costs.exposed}};
}

json model_json(const nn::GptOptions& m) {
  return {{"layers", m.layers},   {"heads", m.heads},           {"dim", m.dim},
          {"context", m.context}, {"vocabulary", m.vocab_size}, {"tied_output", m.tied_output},
          {"dropout", m.dropout}};
}

json modules_json(const graph::ModuleSums& module) {
  json children = json::array();
  for (const graph::ModuleSums& child : module.children) children.push_back(modules_json(child));
  return {{"name", module.name},
          {"repeats", module.repeats},
          {"parameter_bytes", module.parameters},
          {"saved_activation_bytes", module.activations},
          {"flops", module.flops},
          {"children", std::move(children)}};
}

json form_json(const std::optional<graph::Polynomial>& form) {
  return form ? json(graph::to_string(*form)) : json();
}

json forms_json(const graph::GraphForms& forms) {
  json slots = json::array();
  for (const graph::SavedForm& row : forms.slots)
    slots.push_back({{"slot", to_string(row)},
                     {"reason", row.reason},
                     {"bytes", form_json(row.bytes)},
                     {"added", form_json(row.added)}});
  json all = {{"saved_activation_bytes", form_json(forms.saved_activations)},
              {"peak_bytes", form_json(forms.peak)},
              {"flops", form_json(forms.flops)},
              {"recomputed_flops", form_json(forms.recomputed)},
              {"slots", std::move(slots)}};
  for (const auto& [name, form] : forms.others) {
    std::string key = name + "_bytes";
    std::replace(key.begin(), key.end(), ' ', '_');
    all[key] = form_json(form);
  }
  return all;
}

json costs_json(const Costs& costs) {
  return {{"parameter_bytes", costs.parameters},
          {"gradient_bytes", costs.gradients},
          {"optimizer_state_bytes", costs.optimizer_state},
          {"saved_activation_bytes", costs.saved_activations},
          {"peak_bytes", costs.peak},
          {"peak_bytes_by_category", graph::json_of(costs.at_peak)},
          {"peak_step", costs.peak_step},
          {"reserved_bytes_at_most", costs.most_reserved},
          {"flops", costs.flops},
          {"recomputed_flops", costs.recomputed},
          {"planned_operations", costs.planned},
          {"modules", modules_json(costs.modules)["children"]},
          {"root", modules_json(graph::own_sums(costs.modules))}};
}

}  // namespace

Verdict verdict(const Costs& costs, std::int64_t memory) {
  if (costs.most_reserved <= memory) return Verdict::fits;
  return costs.peak <= memory ? Verdict::may_fit : Verdict::too_large;
}

std::string plan_text(const PlanReport& report) {
  std::string text =
      heading(report) + "\n" + cost_lines(report.costs) + "\n" + module_table(report);
  if (report.costs.planned > 0)
    text += "planned, not proven: a real run refuses " + format_count(report.costs.planned) +
            " of these operations, which compute in bf16 or f16\n";
  if (report.memory) text += memory_text(report);
  if (report.ranks) text += ranks_text(report);
  if (report.forms) text += forms_text(report);
  return text;
}

std::string plan_json(const PlanReport& report) {
  json all = costs_json(report.costs);
  all["format"] = "tapehead-plan/1";
  all["name"] = report.name;
  all["model"] = model_json(report.setup.model);
  all["parameters"] = parameter_count(report);
  all["batch"] = report.setup.batch;
  all["dtype"] = printed(dtypes, report.setup.model.dtype);
  all["attention"] = printed(attention_paths, report.setup.model.path);
  all["checkpoint"] = printed(checkpoints, report.setup.model.checkpoint);
  all["optimizer"] = printed(optimizers, report.setup.optimizer);
  if (report.memory)
    all["memory"] = {{"bytes", *report.memory},
                     {"verdict", to_string(verdict(report.costs, *report.memory))},
                     {"note", reserved_text}};
  if (report.fit) all["fit"] = {{"what", report.fit->what}, {"largest", report.fit->largest}};
  if (report.ranks) all["ranks"] = ranks_json(report);
  if (report.forms) all["closed_forms"] = forms_json(*report.forms);
  return graph::json_report(all);
}

}  // namespace tapehead::program
