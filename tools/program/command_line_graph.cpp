// What the commands of `tapehead graph` may be told.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "add_command.h"
#include "graph_commands.h"

namespace tapehead::program {
namespace {

using Shared = std::shared_ptr<GraphCommand>;

std::string name_of_file(const std::string& name) {
  return name.empty() ? "it must name a file" : "";
}

std::string is_pattern(const std::string& text) {
  return text.empty() ? "the pattern is empty" : "";
}

void add_out(CLI::App& sub, const Shared& command) {
  sub.add_option("-o,--out", command->out, "File to write (default: stdout)")->check(name_of_file);
}

CLI::App& add_report(CLI::App& app, const char* name, const char* text, const Shared& command,
                     int (*run)(const GraphCommand&), int& exit_code) {
  CLI::App& sub = add_command(app, name, text, command, run, exit_code);
  sub.add_option("FILE", command->file, "Graph, format tapehead-graph/1")->required();
  add_out(sub, command);
  return sub;
}

void add_json(CLI::App& sub, const Shared& command) {
  sub.add_flag("--json", command->as_json, "The report as JSON");
}

void add_summary(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_json(add_report(app, "summary",
                      "Sums, and what the backward pass saves by module.\n"
                      "Example: tapehead graph summary step.json",
                      command, run_graph_summary, exit_code),
           command);
}

void add_saved(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_report(
      app, "saved",
      "Every saved slot: what it keeps, why, and what dropping it would free. In patterns, * and ? "
      "are wildcards, and a pattern must match all of a name; one that matches nothing in the "
      "graph "
      "is refused, with exit code 2, and so is an empty one.\n"
      "Example: tapehead graph saved step.json --module layers.0 --two-equal-dims",
      command, run_graph_saved, exit_code);
  add_json(sub, command);
  sub.add_option("--sort", command->order, "bytes, module or operation")
      ->check(CLI::IsMember({"bytes", "module", "operation"}))
      ->capture_default_str();
  sub.add_option("--name", command->selection.name,
                 "Only this slot (cross_entropy.logits, or logits), or this value (*.norm1.weight)")
      ->check(is_filter);
  sub.add_option("--operation", command->selection.operation,
                 "Only this operation (softmax; matmul#2: the second of its module)")
      ->check(is_filter);
  sub.add_option("--module", command->selection.module,
                 "Only this module and what lies in it (layers.1, layers.*); (root): what has none")
      ->check(is_filter);
  sub.add_flag("--shared", command->selection.shared, "Only what several slots keep");
  sub.add_flag("--two-equal-dims", command->selection.two_equal_dims,
               "Only shapes with two dims of the same size above 1");
}

void add_timeline(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_json(add_report(app, "timeline",
                      "Plots the live bytes by category over the steps.\n"
                      "Example: tapehead graph timeline step.json",
                      command, run_graph_timeline, exit_code),
           command);
}

void add_peak(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_report(app, "peak",
                             "The step at which the most is live, and what is live there and why.\n"
                             "Example: tapehead graph peak step.json --limit 10",
                             command, run_graph_peak, exit_code);
  add_json(sub, command);
  sub.add_option("--limit", command->limit, "Storages that the text lists")->capture_default_str();
}

void add_flops(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_json(add_report(app, "flops",
                      "Floating-point operations of the forward computation's matrix products, by "
                      "module and operation.\n"
                      "Example: tapehead graph flops step.json",
                      command, run_graph_flops, exit_code),
           command);
}

void add_dot(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_report(app, "dot",
             "A drawing for Graphviz.\n"
             "Example: tapehead graph dot step.json | dot -Tsvg > step.svg",
             command, run_graph_dot, exit_code);
}

void add_trace(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_report(app, "trace",
             "A trace for Perfetto or chrome://tracing; a step stands for a microsecond.\n"
             "Example: tapehead graph trace step.json -o trace.json",
             command, run_graph_trace, exit_code);
}

void add_diff(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_command(app, "diff",
                              "What changed from the graph FILE, before, to the graph AFTER, "
                              "aligned by module, operation and occurrence. Exit code 0 if "
                              "nothing did, 1 if they differ.\n"
                              "Example: tapehead graph diff before.json after.json",
                              command, run_graph_diff, exit_code);
  sub.add_option("FILE", command->file, "Graph before, format tapehead-graph/1")->required();
  sub.add_option("AFTER", command->other, "Graph after")->required();
  add_out(sub, command);
  add_json(sub, command);
}

void add_lint(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  add_json(add_report(app, "lint",
                      "Saved bytes that a small change would free, and what to change. Exit code 0 "
                      "without findings, 1 with some.\n"
                      "Example: tapehead graph lint step.json",
                      command, run_graph_lint, exit_code),
           command);
}

void add_assert(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_report(
      app, "assert",
      "Whether figures of the graph are as they should be. Exit code 0 if so, 1 if not, 2 if the "
      "expression is malformed or a filter matches nothing in the graph; count alone may find no "
      "operation.\n"
      "Figures: saved, saved_all (bytes kept, without or with parameters and inputs), slots, "
      "square(N) (saved tensors with two dims of size N), count (operations), flops, peak. "
      "Filters: name, operation, module, as of graph saved. Units: B, KB to PB, KiB to PiB.\n"
      "Example: tapehead graph assert step.json 'peak < 1.5GiB && saved(module=\"layers.0\") <= "
      "12MiB'",
      command, run_graph_assert, exit_code);
  add_json(sub, command);
  sub.add_option("EXPR", command->expression, "Comparisons joined by && and ||")->required();
}

// One value each time that it is given, so that it takes no FILE for another, and the help no list.
CLI::Option* add_repeated(CLI::App& sub, const char* name, std::vector<std::string>& values,
                          const std::string& text) {
  return sub.add_option(name, values, text + "; may be given several times")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void add_whatif(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_report(app, "whatif",
                             "What a change would do to saved bytes, peak and flops with "
                             "recomputation, without running it, and what the pattern found: "
                             "one of --checkpoint, --recompute and --fuse. * and ? are "
                             "wildcards.\n"
                             "Example: tapehead graph whatif step.json --checkpoint 'layers.*'",
                             command, run_graph_whatif, exit_code);
  add_json(sub, command);
  add_repeated(sub, "--checkpoint", command->checkpoint, "Modules to run by nn::checkpoint")
      ->check(is_pattern);
  add_repeated(sub, "--recompute", command->recompute,
               "Saved slots (\"MODULE OPERATION.SLOT\", of several such operations the second is "
               "OPERATION#2) to make again where they are read")
      ->check(is_pattern);
  add_repeated(sub, "--fuse", command->fuse, "Modules whose attention is to be the fused kernel")
      ->check(is_pattern);
  sub.add_option("--graph", command->graph, "File for the graph that would be")
      ->check(name_of_file);
}

bool is_size(const std::string& text) {
  const std::size_t sign = text.find('=');
  return sign != std::string::npos && sign > 0 &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz") == sign;
}

// An option of several values would take FILE for one. So it has one value, and the others are
// positional as FILE is, from which their form tells them.
void add_sizes(CLI::App& sub, const Shared& command) {
  sub.add_option("--sizes", command->sizes,
                 "Letters for sizes, LETTER=SIZE ...: shapes and bytes are written in them")
      ->allow_extra_args(false);
  sub.add_option("SIZES", command->more_sizes)
      ->check([](const std::string& text) { return is_size(text) ? "" : "no size"; })
      ->group("");
  sub.get_option("FILE")->check(
      [](const std::string& text) { return is_size(text) ? "a size, not a file" : ""; });
  sub.validate_positionals();
}

void add_html(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<GraphCommand>();
  CLI::App& sub = add_report(
      app, "html",
      "One page that opens from its file in any browser, without a network: what is saved, by "
      "whom, why, what is live when, and what a change would do.\n"
      "Example: tapehead graph html step.json --sizes B=8 T=112 -o step.html",
      command, run_graph_html, exit_code);
  sub.add_option("--diff", command->other, "Graph that the page compares FILE with")
      ->check(name_of_file);
  add_sizes(sub, command);
  add_repeated(sub, "--assert", command->budgets,
               "Budget, as of graph assert, that the page marks if it fails, in either graph");
  sub.add_option("--attention", command->attention,
                 "Attention maps of modules of the graph, format tapehead-attention/1")
      ->check(name_of_file);
  sub.add_option("--title", command->title, "Stands at the top (default: FILE)");
}

}  // namespace

void add_graph(CLI::App& app, int& exit_code) {
  CLI::App* graph = app.add_subcommand("graph", "Reports on graphs in files.");
  graph->require_subcommand(1);
  add_summary(*graph, exit_code);
  add_saved(*graph, exit_code);
  add_timeline(*graph, exit_code);
  add_peak(*graph, exit_code);
  add_flops(*graph, exit_code);
  add_dot(*graph, exit_code);
  add_trace(*graph, exit_code);
  add_diff(*graph, exit_code);
  add_lint(*graph, exit_code);
  add_assert(*graph, exit_code);
  add_whatif(*graph, exit_code);
  add_html(*graph, exit_code);
}

}  // namespace tapehead::program
