// Reports on a graph, as text and in JSON, and `tapehead graph`, which writes them. That of saved
// slots is in graph_saved_report_test.cpp.
#include "support/checks.h"
#include "support/folder.h"
#include "support/graph_figures.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/core/count.h>
#include <tapehead/graph/assertion.h>
#include <tapehead/graph/budget.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/dot.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/trace.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

using namespace tapehead;
using graph::at;
using nlohmann::json;
using tests::attention_step;
using tests::check_throws;
using tests::contains;
using tests::real_gpt_step;
using tests::run_program;

TEST_CASE("reports in JSON agree with the graph") {
  const graph::Timeline line = graph::timeline(real_gpt_step());
  const json summary = json::parse(graph::summary_json(real_gpt_step()));
  CHECK(summary["saved_bytes"] == real_gpt_step().saved_bytes());
  CHECK(summary["saved_activation_bytes"] == real_gpt_step().saved_activation_bytes());
  CHECK(summary["peak_bytes"] == line.peak);
  CHECK(summary["operations"] == std::ssize(real_gpt_step().nodes));
  std::int64_t flops = tests::flops(real_gpt_step());
  CHECK(summary["flops"] == flops);
  const json by_operation = json::parse(graph::flops_json(real_gpt_step()))["operations"];
  for (const auto& [name, sums] : by_operation.items()) flops -= sums["flops"].get<std::int64_t>();
  CHECK(flops == 0);

  const json peak = json::parse(graph::peak_json(real_gpt_step()));
  std::int64_t live = peak["unwatched_bytes"];
  for (const json& storage : peak["live"]) live += storage["bytes"].get<std::int64_t>();
  CHECK(live == line.peak);

  const json steps = json::parse(graph::timeline_json(real_gpt_step()))["steps"];
  REQUIRE(steps.size() == real_gpt_step().steps.size());
  CHECK(steps[at(line.peak_step)]["highest"] == line.peak);

  const auto rows = graph::saved_rows(real_gpt_step());
  CHECK(json::parse(graph::saved_json(real_gpt_step(), rows))["rows"].size() == rows.size());
}

TEST_CASE("counts and bytes whose sums do not fit in 63 bits are reported as the largest count") {
  Graph huge = real_gpt_step();
  huge.events.clear();
  for (Graph::Node& node : huge.nodes) node.flops = largest_count;
  for (Graph::Storage& storage : huge.storages)
    if (storage.category == Category::gradient) storage.bytes = largest_count;
  const json summary = json::parse(graph::summary_json(huge));
  CHECK(summary["flops"] == largest_count);
  CHECK(summary["gradient_bytes"] == largest_count);
  const json flops = json::parse(graph::flops_json(huge));
  CHECK(flops["operations"]["linear"]["flops"] == largest_count);
  CHECK(graph::check_assertion(huge, "flops > 999999999999999999").holds);
  CHECK(graph::diff(huge, real_gpt_step()).before.flops == largest_count);
}

TEST_CASE("what no module counts has a row and a key, so that modules add up to the totals") {
  for (const json& report : {json::parse(graph::summary_json(real_gpt_step())),
                             json::parse(graph::flops_json(real_gpt_step()))})
    for (const char* figure : {"operations", "flops", "saved_activation_bytes"}) {
      CAPTURE(figure);
      std::int64_t sum = report["root"][figure];
      for (const json& module : report["modules"]) sum += module[figure].get<std::int64_t>();
      CHECK(sum == json::parse(graph::summary_json(real_gpt_step()))[figure]);
    }
  CHECK(json::parse(graph::flops_json(real_gpt_step()))["root"]["operations"] > 0);
  CHECK(contains(graph::flops_text(real_gpt_step()), "\n(root) "));
}

TEST_CASE("reports as text fit a page and name the exact peak") {
  const std::string peak = json::parse(graph::summary_json(real_gpt_step()))["peak_bytes"].dump();
  const std::string grouped = peak.substr(0, peak.size() - 3) + "," + peak.substr(peak.size() - 3);
  REQUIRE(peak.size() > 3);
  REQUIRE(peak.size() < 7);
  for (const std::string& text :
       {graph::summary_text(real_gpt_step()), graph::timeline_text(real_gpt_step()),
        graph::peak_text(real_gpt_step(), 5),
        graph::saved_text(real_gpt_step(), graph::saved_rows(real_gpt_step())),
        graph::flops_text(real_gpt_step())}) {
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      REQUIRE(end != std::string::npos);
      CHECK(end - begin <= 100);
    }
  }
  CHECK(contains(graph::summary_text(real_gpt_step()), grouped));
  CHECK(contains(graph::peak_text(real_gpt_step(), 5), grouped));
  const std::string timeline = graph::timeline_text(real_gpt_step());
  CHECK(contains(timeline, grouped));
  for (const char* border : {"-- forward --", "-- backward --", "-- update --", "< peak"})
    CHECK(contains(timeline, border));
}

TEST_CASE("a tape's own graph under a ledger has no peak, and the complaint names the ledger's") {
  const Ledger ledger;
  Tape tape;
  const Tensor y = sum(square(parameter(ones({3}))));
  const Graph graph = tape.graph();
  check_throws(ErrorKind::value,
               {"peak: ", "as tape.graph() has none", "ledger.graph() of a Ledger"},
               [&] { (void)graph::peak_text(graph, 5); });
  const std::string text = graph::summary_text(graph);
  for (const char* what : {"peak", "gradients", "optimizer state"})
    CHECK(std::regex_search(
        text, std::regex("(^|\n)" + std::string(what) + " +unknown: not a ledger's graph\n")));
  const json report = json::parse(graph::summary_json(graph));
  for (const char* key : {"peak_bytes", "gradient_bytes", "optimizer_state_bytes"})
    CHECK_FALSE(report.contains(key));
  CHECK(contains(graph::peak_text(ledger.graph(), 5), "peak "));
}

TEST_CASE("what is live at the peak adds up by category to the peak") {
  const json report = json::parse(graph::peak_json(real_gpt_step()));
  std::int64_t sum = report["unwatched_bytes"];
  for (const auto& [category, bytes] : report["category_bytes"].items()) {
    std::int64_t listed = 0;
    for (const json& storage : report["live"])
      if (storage["category"] == category) listed += storage["bytes"].get<std::int64_t>();
    CHECK(listed == bytes);
    sum += listed;
  }
  CHECK(sum == report["peak_bytes"]);
  // The text has the sums of all, also of those that it does not list.
  const std::string text = graph::peak_text(real_gpt_step(), 1);
  const std::string sums = text.substr(text.find("\nin all "));
  for (const auto& [category, bytes] : report["category_bytes"].items())
    CHECK(contains(sums, "\n" + category + " ") == (bytes > 0));
  CHECK(contains(sums, "\npeak "));
  CHECK(contains(sums, " 100.0 %\n"));
}

TEST_CASE("names that would turn a terminal round or act on it are shown as their codes") {
  CHECK(graph::printable("a\u202eb\u2066") == "a\\u202eb\\u2066");
  CHECK(graph::printable("\x1b[31m\u009b1m\n\xff") == "?[31m?1m??");
  CHECK(graph::printable("blöcke, 層") == "blöcke, 層");
  CHECK(graph::fit_label("\u202e", 6) == "\\u202e");
  Graph graph = attention_step();
  for (Graph::Node& node : graph.nodes) node.module = "evil\u202e\u009b" + node.module;
  for (Graph::Value& value : graph.values) value.name = "name\u202e";
  for (Graph::SavedSlot& slot : graph.saved) slot.reason = "why\u202e";
  Graph other = graph;
  other.nodes[0].attributes.push_back({"odd\u202e", "x\u202e"});
  for (const std::string& text :
       {graph::summary_text(graph), graph::saved_text(graph, graph::saved_rows(graph)),
        graph::peak_text(graph, 9), graph::flops_text(graph), graph::timeline_text(graph),
        graph::diff_text(graph::diff(graph, other)), graph::lint_text(graph, graph::lint(graph)),
        graph::what_if_text(graph, graph, graph::recompute_matches(graph, {"*"})),
        graph::saves_at_most(graph, 1).message}) {
    CHECK_FALSE(contains(text, "\u202e"));
    CHECK_FALSE(contains(text, "\u009b"));
  }
}

TEST_CASE("tapehead graph writes each report, and says what is wrong with a file") {
  const tests::Folder folder;
  const std::string file = folder.file("step.json").string();
  const std::string out = folder.file("report").string(), err = folder.file("err").string();
  graph::write_json(real_gpt_step(), std::filesystem::path(file));
  const auto report = [&](const std::string& arguments) {
    CHECK(run_program("graph " + arguments + " " + file + " -o " + out) == 0);
    return io::read_file("test", out);
  };
  CHECK(report("summary") == graph::summary_text(real_gpt_step()));
  CHECK(report("saved --shared --sort module --json") ==
        graph::saved_json(real_gpt_step(),
                          graph::saved_rows(real_gpt_step(),
                                            {.shared = true, .order = graph::SavedOrder::module})));
  CHECK(report("saved --name '*norm*' --sort operation") ==
        graph::saved_text(
            real_gpt_step(),
            graph::saved_rows(real_gpt_step(),
                              {.name = "*norm*", .order = graph::SavedOrder::operation})));
  CHECK(run_program("graph saved " + file + " --module nosuch 2> " + err) == 2);
  CHECK(io::read_file("test", err).starts_with("tapehead: saved: no module matches \"nosuch\"; "));
  CHECK(report("timeline --json") == graph::timeline_json(real_gpt_step()));
  CHECK(contains(report("peak --limit 0"), " more\n"));
  CHECK(report("peak --limit 3") == graph::peak_text(real_gpt_step(), 3));
  CHECK(report("flops") == graph::flops_text(real_gpt_step()));
  CHECK(report("dot") == graph::to_dot(real_gpt_step()));
  CHECK(report("trace") == graph::to_trace(real_gpt_step()));

  Graph unwatched = real_gpt_step();
  unwatched.steps.clear();
  unwatched.events.clear();
  unwatched.live_before = 0;
  graph::write_json(unwatched, std::filesystem::path(file));
  CHECK(run_program("graph summary " + file + " > " + out) == 0);
  for (const std::string command : {"timeline", "peak", "trace", "assert"}) {
    CAPTURE(command);
    const std::string expression = command == "assert" ? " 'peak < 1'" : "";
    CHECK(run_program("graph " + command + " " + file + expression + " 2> " + err) == 2);
    const std::string said = io::read_file("test", err);
    CHECK(said.starts_with("tapehead: " + command + ": the graph has no events"));
    CHECK(contains(said, "graph.json that tapehead train leaves"));
  }
  CHECK(run_program("graph summary " + file + " -o '' 2> " + err) == 2);
  CHECK(contains(io::read_file("test", err), "--out: it must name a file"));
  for (const std::string option : {"--name", "--operation", "--module"}) {
    CHECK(run_program("graph saved " + file + " " + option + " '' 2> " + err) == 2);
    CHECK(contains(io::read_file("test", err), option + ": the pattern is empty"));
  }
  CHECK(run_program("graph saved " + err + " 2> " + out) == 2);
  const std::string complaint = io::read_file("test", out);
  CHECK(std::count(complaint.begin(), complaint.end(), '\n') == 1);
}
