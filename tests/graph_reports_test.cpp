#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/core/count.h>
#include <tapehead/graph/assertion.h>
#include <tapehead/graph/budget.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/dot.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/trace.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/atomic_file.h>
#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace tapehead;
using nlohmann::json;
using tests::attention_step;
using tests::check_throws;
using tests::contains;
using tests::encoder_step;
using tests::run_program;

namespace {

// A training step of a small model, with T = 6 and every other size different.
Graph small_gpt_step() {
  Generator generator(7);
  nn::Gpt gpt({.vocab_size = 11, .context = 6, .layers = 2, .heads = 2, .dim = 8}, generator);
  nn::AdamW optimizer(gpt, {.lr = 1e-3});
  const std::vector<std::int64_t> tokens{1, 4, 2, 9, 0, 3, 7, 10, 5, 2, 8, 6, 1, 1, 3, 2, 5, 9};
  Ledger ledger;
  Tape tape;
  const Tensor logits = gpt(from_vector(tokens, {3, 6}));
  const Tensor targets = from_vector(tokens, {18});
  const Tensor loss = cross_entropy(reshape(logits, {18, 11}), targets);
  optimizer.step(tape.gradient(loss, gpt.parameters()));
  return ledger.graph();
}

const Graph& small_step() {
  static const Graph graph = small_gpt_step();
  return graph;
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

Graph without_slot(Graph graph, std::int64_t index) {
  graph.saved.erase(graph.saved.begin() + index);
  return graph;
}

}  // namespace

TEST_CASE("what a slot frees is what the saved activations lose without it") {
  const std::vector<graph::SavedRow> rows = graph::saved_rows(small_step());
  REQUIRE(rows.size() == small_step().saved.size());
  std::int64_t shared = 0;
  for (const graph::SavedRow& row : rows) {
    CAPTURE(small_step().saved[at(row.index)].slot);
    const Graph less = without_slot(small_step(), row.index);
    CHECK(small_step().saved_activation_bytes() - less.saved_activation_bytes() == row.freed);
    CHECK(row.needed <= row.retained);
    shared += row.sharers > 0;
  }
  CHECK(shared > 0);
  CHECK(std::is_sorted(rows.begin(), rows.end(),
                       [](const auto& a, const auto& b) { return a.retained > b.retained; }));
}

TEST_CASE("a slot says whose results lie in the same storage, and in which step that dies") {
  const auto rows = graph::saved_rows(small_step(), {.operation = "softmax"});
  REQUIRE(rows.size() == 2);
  for (const graph::SavedRow& row : rows) {
    // Masking and softmax worked in place of the scores.
    std::vector<std::string> viewers;
    for (const std::int64_t node : row.viewed_by)
      viewers.push_back(small_step().nodes[at(node)].operation);
    CHECK(viewers == std::vector<std::string>{"matmul", "masked_fill"});
    CHECK(row.viewers == 2);
    const Graph::Step& last = small_step().steps[at(row.death)];
    CHECK(last.phase == Graph::Phase::backward);
    CHECK(last.operation == "softmax");
    CHECK(last.node == small_step().saved[at(row.index)].node);
  }
  for (const graph::SavedRow& row : graph::saved_rows(small_step(), {.name = "*.norm1.weight"}))
    CHECK(row.death == -1);  // a parameter lives on
  Graph unwatched = small_step();
  unwatched.events.clear();
  CHECK(graph::saved_rows(unwatched).front().death == -1);
}

TEST_CASE("queries, keys and values are told apart by the rows of the weight that made them") {
  const Graph graph = attention_step();
  const json report = json::parse(graph::saved_json(graph, graph::saved_rows(graph)));
  std::multiset<std::string> makers;
  for (const json& row : report["rows"])
    if (row["operation"] == "matmul") makers.insert(row["made_by"]);
  const std::string weight = " with in_proj_weight";
  CHECK(makers == std::multiset<std::string>{"attn linear#1" + weight + "[0:12]",
                                             "attn linear#2" + weight + "[12:24]",
                                             "attn linear#3" + weight + "[24:36]", "attn softmax"});
  CHECK(contains(graph::saved_text(graph, graph::saved_rows(graph)),
                 "\n    made by: attn linear#2" + weight + "[12:24]\n"));
}

TEST_CASE("a view of a parameter is found and shown by the parameter's name") {
  const Graph graph = encoder_step({.norm_first = true});
  const auto rows = graph::saved_rows(graph, {.name = "*in_proj_weight*"});
  std::vector<std::string> names;
  const json report = json::parse(graph::saved_json(graph, rows));
  for (const json& row : report["rows"]) names.push_back(row["name"]);
  const std::string weight = "self_attn.in_proj_weight";
  CHECK(names ==
        std::vector<std::string>{weight + "[0:12]", weight + "[12:24]", weight + "[24:36]"});
  CHECK(graph::check_assertion(graph, "slots(name=\"*.in_proj_weight[12:24]\") == 1").holds);
}

TEST_CASE("saved rows are chosen by patterns, sharing and equal dims") {
  const auto count = [](const graph::SavedSelection& selection, auto holds) {
    const auto rows = graph::saved_rows(small_step(), selection);
    CHECK(rows.size() > 0);
    CHECK(rows.size() < small_step().saved.size());
    for (const graph::SavedRow& row : rows) CHECK(holds(row));
  };
  const auto node = [](const graph::SavedRow& row) -> const Graph::Node& {
    return small_step().nodes[at(small_step().saved[at(row.index)].node)];
  };
  count({.operation = "soft?ax"},
        [&](auto& row) { return contains(node(row).operation, "softmax"); });
  count({.name = "*norm?.weight"}, [](auto& row) {
    return contains(small_step().values[at(small_step().saved[at(row.index)].value)].name, "norm");
  });
  count({.module = "layers.1"},
        [&](auto& row) { return node(row).module.starts_with("layers.1"); });
  count({.name = "cross_entropy.logits"},
        [&](auto& row) { return node(row).operation == "cross_entropy"; });
  count({.operation = "matmul#2"}, [&](auto& row) { return node(row).operation == "matmul"; });
  count({.module = "(root)"}, [&](auto& row) { return node(row).module.empty(); });
  CHECK(graph::check_assertion(small_step(), "slots(module=\"(root)\") > 0").holds);
  count({.shared = true}, [](auto& row) { return !row.shared_with.empty(); });
  count({.two_equal_dims = true}, [](auto& row) {
    const Shape& shape = small_step().values[at(small_step().saved[at(row.index)].value)].shape;
    return std::count(shape.begin(), shape.end(), 6) == 2 ||
           std::count(shape.begin(), shape.end(), 8) == 2;
  });
}

TEST_CASE(
    "a pattern that matches nothing in the graph is refused, not answered by an empty table") {
  const auto refused = [](const graph::SavedSelection& selection, const std::string& why) {
    check_throws(ErrorKind::value, {"saved: ", why},
                 [&] { (void)graph::saved_rows(small_step(), selection); });
  };
  refused({.module = "nosuch"}, "no module matches \"nosuch\"; the nearest names are ");
  refused({.operation = "softmix"},
          "no operation matches \"softmix\"; the nearest names are softmax");
  refused({.name = "norm?.wait"}, "no slot's or value's name matches \"norm?.wait\"; the nearest ");
  refused({.operation = "softmax", .module = "*.norm1"},
          "no operation \"softmax\" runs in \"*.norm1\"");
  // What is there and saves nothing has no rows.
  const auto none = graph::saved_rows(small_step(), {.operation = "reshape"});
  CHECK(none.empty());
  CHECK(graph::saved_text(small_step(), none) == "nothing saved matches\n");
}

TEST_CASE("saved rows are sorted by operation, or by module, when that is asked for") {
  using Names = std::pair<std::string, std::string>;
  const auto names = [](graph::SavedOrder order) {
    std::vector<Names> all;
    for (const graph::SavedRow& row : graph::saved_rows(small_step(), {.order = order})) {
      const Graph::Node& node = small_step().nodes[at(small_step().saved[at(row.index)].node)];
      const bool by_operation = order == graph::SavedOrder::operation;
      all.push_back(by_operation ? Names(node.operation, node.module)
                                 : Names(node.module, node.operation));
    }
    CHECK(all.size() == small_step().saved.size());
    return all;
  };
  for (const graph::SavedOrder order : {graph::SavedOrder::operation, graph::SavedOrder::module}) {
    const std::vector<Names> all = names(order);
    CHECK(std::is_sorted(all.begin(), all.end()));
    CHECK(all.front() != all.back());
  }
}

TEST_CASE("an expanded value needs the bytes of its distinct elements") {
  Graph graph = small_step();
  const std::int64_t index = graph::saved_rows(graph).front().index;
  Graph::Value& value = graph.values[at(graph.saved[at(index)].value)];
  value.shape = {5, 3};
  value.strides = {0, 1};
  CHECK(graph::saved_rows(graph).front().needed == 3 * 4);
}

TEST_CASE("reports in JSON agree with the graph") {
  const graph::Timeline line = graph::timeline(small_step());
  const json summary = json::parse(graph::summary_json(small_step()));
  CHECK(summary["saved_bytes"] == small_step().saved_bytes());
  CHECK(summary["saved_activation_bytes"] == small_step().saved_activation_bytes());
  CHECK(summary["peak_bytes"] == line.peak);
  CHECK(summary["operations"] == std::ssize(small_step().nodes));
  std::int64_t flops = 0;
  for (const Graph::Node& node : small_step().nodes) flops += node.flops;
  CHECK(summary["flops"] == flops);
  const json by_operation = json::parse(graph::flops_json(small_step()))["operations"];
  for (const auto& [name, sums] : by_operation.items()) flops -= sums["flops"].get<std::int64_t>();
  CHECK(flops == 0);

  const json peak = json::parse(graph::peak_json(small_step()));
  std::int64_t live = peak["unwatched_bytes"];
  for (const json& storage : peak["live"]) live += storage["bytes"].get<std::int64_t>();
  CHECK(live == line.peak);

  const json steps = json::parse(graph::timeline_json(small_step()))["steps"];
  REQUIRE(steps.size() == small_step().steps.size());
  CHECK(steps[at(line.peak_step)]["highest"] == line.peak);

  const auto rows = graph::saved_rows(small_step());
  CHECK(json::parse(graph::saved_json(small_step(), rows))["rows"].size() == rows.size());
}

TEST_CASE("the saved slots that are listed are summed, each storage once") {
  const auto rows = graph::saved_rows(small_step(), {.operation = "matmul"});
  const json report = json::parse(graph::saved_json(small_step(), rows));
  std::map<std::int64_t, std::int64_t> kept;  // by storage
  for (const json& row : report["rows"]) kept[row["storage"]] = row["retained"];
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : kept) sum += bytes;
  CHECK(sum < report["saved_bytes"]);
  CHECK(report["listed_bytes"] == sum);
  CHECK(contains(graph::saved_text(small_step(), rows),
                 "slots, which keep " + graph::format_bytes(sum) + ";\n"));
}

TEST_CASE("counts and bytes whose sums do not fit in 63 bits are reported as the largest count") {
  Graph huge = small_step();
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
  CHECK(graph::diff(huge, small_step()).before.flops == largest_count);
}

TEST_CASE("what no module counts has a row and a key, so that modules add up to the totals") {
  for (const json& report : {json::parse(graph::summary_json(small_step())),
                             json::parse(graph::flops_json(small_step()))})
    for (const char* figure : {"operations", "flops", "saved_activation_bytes"}) {
      CAPTURE(figure);
      std::int64_t sum = report["root"][figure];
      for (const json& module : report["modules"]) sum += module[figure].get<std::int64_t>();
      CHECK(sum == json::parse(graph::summary_json(small_step()))[figure]);
    }
  CHECK(json::parse(graph::flops_json(small_step()))["root"]["operations"] > 0);
  CHECK(contains(graph::flops_text(small_step()), "\n(root) "));
}

TEST_CASE("reports as text fit a page and name the exact peak") {
  const std::string peak = json::parse(graph::summary_json(small_step()))["peak_bytes"].dump();
  const std::string grouped = peak.substr(0, peak.size() - 3) + "," + peak.substr(peak.size() - 3);
  REQUIRE(peak.size() > 3);
  REQUIRE(peak.size() < 7);
  for (const std::string& text :
       {graph::summary_text(small_step()), graph::timeline_text(small_step()),
        graph::peak_text(small_step(), 5),
        graph::saved_text(small_step(), graph::saved_rows(small_step())),
        graph::flops_text(small_step())}) {
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      REQUIRE(end != std::string::npos);
      CHECK(end - begin <= 100);
    }
  }
  CHECK(contains(graph::summary_text(small_step()), grouped));
  CHECK(contains(graph::peak_text(small_step(), 5), grouped));
  const std::string timeline = graph::timeline_text(small_step());
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
  const json report = json::parse(graph::peak_json(small_step()));
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
  const std::string text = graph::peak_text(small_step(), 1);
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

TEST_CASE("the list of saved slots says what retained and needed are") {
  const std::string text = graph::saved_text(small_step(), graph::saved_rows(small_step()));
  CHECK(contains(text, "\nretained: bytes of the storage that the slot keeps alive; needed: "));
}

TEST_CASE("a drawing quotes names, closes its clusters and has an edge for each slot") {
  Graph graph = small_step();
  graph.nodes[0].operation = "a\"b\\";
  const std::string dot = graph::to_dot(graph);
  CHECK(contains(dot, "[label=\"a\\\"b\\\\ "));
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
  std::ptrdiff_t dashed = 0;
  for (std::size_t i = dot.find("dashed"); i != std::string::npos; i = dot.find("dashed", i + 1))
    ++dashed;
  CHECK(dashed == std::ssize(graph.saved));
}

TEST_CASE(
    "a drawing is a DOT file: each line a known statement, each edge between what is declared") {
  const std::regex text(R"re("([^"\\\\]|\\\\["\\\\])*")re");
  const std::regex box(R"( *([nv]\d+) \[(shape=ellipse, )?label=""\];)");
  const std::regex edge(R"( *([nv]\d+) -> ([nv]\d+)( \[style=dashed, label=""\])?;)");
  const std::regex frame(R"(digraph tapehead \{| *subgraph cluster_\d+ \{| *\}| *label="";)");
  std::istringstream lines(graph::to_dot(small_step()));
  std::set<std::string> declared;
  std::string line;
  while (std::getline(lines, line)) {
    CAPTURE(line);
    line = std::regex_replace(line, text, "\"\"");
    std::smatch parts;
    if (std::regex_match(line, parts, edge)) {
      CHECK(declared.contains(parts[1]));
      CHECK(declared.contains(parts[2]));
    } else if (std::regex_match(line, parts, box)) {
      CHECK(declared.insert(parts[1]).second);
    } else {
      CHECK((std::regex_match(line, frame) || line == "  node [shape=box];"));
    }
  }
  const auto made = std::count_if(small_step().values.begin(), small_step().values.end(),
                                  [](const auto& value) { return value.producer < 0; });
  CHECK(std::ssize(declared) == std::ssize(small_step().nodes) + made);
}

TEST_CASE("a trace's slices of phases lie end to end, and its counters are the timeline's") {
  const graph::Timeline line = graph::timeline(small_step());
  const json trace = json::parse(graph::to_trace(small_step()));
  CHECK(trace.size() == 1);
  std::int64_t end = 0;
  for (const json& event : trace["traceEvents"]) {
    CHECK(event["pid"] == 1);
    CHECK(event["ts"].is_number_unsigned());
    CHECK((event["ph"] == "X" || event["ph"] == "C"));
    CHECK_FALSE(event["name"].get<std::string>().empty());
    if (event["ph"] == "C") {
      const graph::BytesByCategory& after = line.after[event["ts"].get<std::size_t>() - 1];
      std::int64_t sum = 0;
      for (const auto& [category, bytes] : event["args"].items()) sum += bytes.get<std::int64_t>();
      CHECK(sum == std::accumulate(after.begin(), after.end(), line.unwatched));
    } else if (event["tid"] == 1) {
      CHECK(event["ts"] == std::exchange(end, end + event["dur"].get<std::int64_t>()));
      CHECK(event["dur"] > 0);
    } else {
      CHECK(event["tid"] == 2);
      CHECK(event["dur"] == 1);
    }
  }
  CHECK(end == std::ssize(small_step().steps));
}

TEST_CASE("a trace has a slice and a counter for each step") {
  const graph::Timeline line = graph::timeline(small_step());
  const json events = json::parse(graph::to_trace(small_step()))["traceEvents"];
  std::size_t slices = 0, counters = 0;
  for (const json& event : events) {
    if (event["ph"] == "X" && event["tid"] == 2) CHECK(event["ts"] == slices++);
    if (event["ph"] != "C") continue;
    CHECK(event["args"]["saved"] == line.after[counters][at(std::int64_t(Category::saved))]);
    CHECK(event["ts"] == ++counters);
  }
  CHECK(slices == small_step().steps.size());
  CHECK(counters == small_step().steps.size());
}

TEST_CASE("tapehead graph writes each report, and says what is wrong with a file") {
  const tests::Folder folder;
  const std::string file = folder.file("step.json").string();
  const std::string out = folder.file("report").string(), err = folder.file("err").string();
  graph::write_json(small_step(), std::filesystem::path(file));
  const auto report = [&](const std::string& arguments) {
    CHECK(run_program("graph " + arguments + " " + file + " -o " + out) == 0);
    return nn::read_file("test", out);
  };
  CHECK(report("summary") == graph::summary_text(small_step()));
  CHECK(report("saved --shared --sort module --json") ==
        graph::saved_json(
            small_step(),
            graph::saved_rows(small_step(), {.shared = true, .order = graph::SavedOrder::module})));
  CHECK(report("saved --name '*norm*' --sort operation") ==
        graph::saved_text(
            small_step(),
            graph::saved_rows(small_step(),
                              {.name = "*norm*", .order = graph::SavedOrder::operation})));
  CHECK(run_program("graph saved " + file + " --module nosuch 2> " + err) == 2);
  CHECK(nn::read_file("test", err).starts_with("tapehead: saved: no module matches \"nosuch\"; "));
  CHECK(report("timeline --json") == graph::timeline_json(small_step()));
  CHECK(contains(report("peak --limit 0"), " more\n"));
  CHECK(report("peak --limit 3") == graph::peak_text(small_step(), 3));
  CHECK(report("flops") == graph::flops_text(small_step()));
  CHECK(report("dot") == graph::to_dot(small_step()));
  CHECK(report("trace") == graph::to_trace(small_step()));

  Graph unwatched = small_step();
  unwatched.steps.clear();
  unwatched.events.clear();
  unwatched.live_before = 0;
  graph::write_json(unwatched, std::filesystem::path(file));
  CHECK(run_program("graph summary " + file + " > " + out) == 0);
  for (const std::string command : {"timeline", "peak", "trace", "assert"}) {
    CAPTURE(command);
    const std::string expression = command == "assert" ? " 'peak < 1'" : "";
    CHECK(run_program("graph " + command + " " + file + expression + " 2> " + err) == 2);
    const std::string said = nn::read_file("test", err);
    CHECK(said.starts_with("tapehead: " + command + ": the graph has no events"));
    CHECK(contains(said, "graph.json that tapehead train leaves"));
  }
  CHECK(run_program("graph summary " + file + " -o '' 2> " + err) == 2);
  CHECK(contains(nn::read_file("test", err), "--out: it must name a file"));
  for (const std::string option : {"--name", "--operation", "--module"}) {
    CHECK(run_program("graph saved " + file + " " + option + " '' 2> " + err) == 2);
    CHECK(contains(nn::read_file("test", err), option + ": the pattern is empty"));
  }
  CHECK(run_program("graph saved " + err + " 2> " + out) == 2);
  const std::string complaint = nn::read_file("test", out);
  CHECK(std::count(complaint.begin(), complaint.end(), '\n') == 1);
}
