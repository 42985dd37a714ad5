#include "support/checks.h"
#include "support/folder.h"
#include "support/graph_figures.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/graph/assertion.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

const Graph& step() {
  static const Graph graph = gpt_step({.time = 7});
  return graph;
}

bool holds(const std::string& text) { return graph::check_assertion(step(), text).holds; }

// What the graph has of a figure.
std::int64_t figure(const std::string& text) {
  const graph::Assertion assertion = graph::check_assertion(step(), text + " >= 0");
  REQUIRE(assertion.comparisons.size() == 1);
  CHECK(assertion.holds);
  return assertion.comparisons[0].figure;
}

}  // namespace

TEST_CASE("figures of an assertion are those of the graph") {
  CHECK(figure("saved") == step().saved_activation_bytes());
  CHECK(figure("saved_all") == step().saved_bytes());
  CHECK(figure("slots") == std::ssize(step().saved));
  CHECK(figure("count") == std::ssize(step().nodes));
  CHECK(figure("peak") == graph::timeline(step()).peak);
  CHECK(figure("flops") == flops(step()));
  // Two layers, in each the weights (2, 3, 7, 7), kept by two slots; and one mask of (7, 7).
  CHECK(figure("square(7)") == 3);
  CHECK(figure("square(7, operation=\"softmax\")") == 2);
  CHECK(figure("square(512)") == 0);
}

TEST_CASE("filters of an assertion choose by name, operation and module") {
  CHECK(figure("count(operation=\"masked_fill\")") == 2);
  CHECK(figure("count(operation=\"masked_fill\", module=\"layers.1\")") == 1);
  CHECK(figure("slots(operation=\"softmax\")") == 2);
  CHECK(figure("saved(operation=\"softmax\", module=\"layers.0\")") == 2 * 3 * 7 * 7 * 4);
  CHECK(figure("saved(name=\"norm.weight\")") == 0);
  CHECK(figure("saved_all(name=\"layers.0.norm1.weight\")") == 12 * 4);
  CHECK(figure("flops(module=\"layers.0\")") == figure("flops(module=\"layers.1\")"));
  CHECK(figure("flops(module=\"layers.0\")") < figure("flops"));
}

TEST_CASE(
    "a filter that matches nothing is an error which lists near names, not a bound that holds") {
  const auto refused = [](const std::string& text, const std::string& why) {
    CAPTURE(text);
    check_throws(ErrorKind::value, {"assert: column 1: " + why},
                 [&] { (void)graph::check_assertion(step(), text); });
  };
  refused("saved(module=\"layer.0.norm2\") < 1GiB",
          "no module matches \"layer.0.norm2\"; the nearest names are layers.0.norm2, ");
  refused("slots(operation=\"sofmax\") >= 0",
          "no operation matches \"sofmax\"; the nearest names are softmax, ");
  refused("saved_all(name=\"layers.0.norm1.wieght\") >= 0",
          "no slot's or value's name matches \"layers.0.norm1.wieght\"; the nearest names are "
          "layers.0.norm1.weight");
  refused("square(7, operation=\"softmax\", module=\"*.norm1\") == 0",
          "no operation \"softmax\" runs in \"*.norm1\"");
  refused("count(module=\"yers.1\") > 0", "no module matches \"yers.1\"");
  refused("count(module=\"layers.0.nor\") > 0", "no module matches \"layers.0.nor\"");
  refused("slots(operation=\"oftma\") > 0", "no operation matches \"oftma\"");
  refused("slots(name=\"norm1.weight\") > 0", "no slot's or value's name matches");
  refused("flops(module=\"layers.7\") < 1 || slots > 0", "no module matches \"layers.7\"");
  refused("count(operation=\"softmax\", module=\"layers.7\") == 0", "no module matches");
  CHECK(figure("count(operation=\"sofmax\")") == 0);
  CHECK(figure("count(operation=\"softmax\", module=\"*.norm1\")") == 0);
  check_throws(ErrorKind::value, {"no module matches \"a\"; there are none"},
               [] { (void)graph::check_assertion(Graph{}, "saved(module=\"a\") == 0"); });
}

TEST_CASE("a module's pattern takes the module and what lies in it, and no other") {
  const std::int64_t before = figure("saved(module=\"layers.1\")");
  Graph graph = step();
  for (Graph::Node& node : graph.nodes)
    if (node.module.starts_with("layers.0")) node.module.replace(0, 8, "layers.10");
  const auto in = [&](const std::string& module) {
    return graph::check_assertion(graph, "saved(module=\"" + module + "\") > 0")
        .comparisons[0]
        .figure;
  };
  CHECK(in("layers.1") == before);
  CHECK(in("layers.10") > 0);
  CHECK(in("layers.1*") > before);
  CHECK(in("layers.?") == before);
  CHECK(in("layers.*.norm1") > in("layers.1.norm1"));
}

TEST_CASE("an operation's number and a slot's name choose as the reports write them") {
  CHECK(figure("count(operation=\"matmul\")") == 4);
  CHECK(figure("count(operation=\"matmul#2\")") == 2);
  CHECK(figure("count(operation=\"matmul#2\", module=\"layers.1\")") == 1);
  for (const char* name : {"cross_entropy.logits", "logits", "cross_*.logits"}) {
    CAPTURE(name);
    CHECK(figure("slots(name=\"" + std::string(name) + "\")") == 1);
  }
  CHECK(figure("slots(name=\"softmax.y\")") == 2);
  CHECK(figure("slots(name=\"layers.0.self_attn softmax.y\")") == 1);
}

TEST_CASE("comparisons are exact, in any unit") {
  CHECK(holds("count(operation=\"masked_fill\") == 2"));
  CHECK_FALSE(holds("count(operation=\"masked_fill\") != 2"));
  const std::string masks = "saved(operation=\"masked_fill\")";  // 49 bytes
  for (const char* yes :
       {" == 49", " == 49B", " == 0.049KB", " < 50", " <= 49", " > 48", " >= 49", " < 0.05 KB",
        " < 1KiB", " < 1TiB", " > 0.047851KiB", " < 0.047852KiB", " < 999999999999999999TiB",
        " < 999999999999999999PiB", "!=48.999999", "<1 MB"})
    CHECK_MESSAGE(holds(masks + yes), yes);
  for (const char* no : {" == 50", " < 49", " > 49", " <= 48", " >= 50", " != 49", " > 1 MiB"})
    CHECK_MESSAGE(!holds(masks + no), no);
}

TEST_CASE("&& binds closer than ||, and every comparison is reported") {
  const std::string yes = "slots > 0", no = "slots < 0";
  CHECK(holds(yes + " && " + yes));
  CHECK_FALSE(holds(yes + " && " + no));
  CHECK(holds(yes + " || " + no + "&&" + no));
  CHECK(holds(no + " && " + no + " || " + yes));
  CHECK_FALSE(holds(no + "||" + yes + "&&" + no));
  const graph::Assertion assertion = graph::check_assertion(step(), yes + " ||\n\t" + no);
  REQUIRE(assertion.comparisons.size() == 2);
  CHECK(assertion.comparisons[0].text == yes);
  CHECK(assertion.comparisons[0].holds);
  CHECK(assertion.comparisons[1].text == no);
  CHECK_FALSE(assertion.comparisons[1].holds);
}

TEST_CASE("a malformed assertion is refused with the column") {
  const auto refused = [](const char* text, const char* column) {
    CAPTURE(text);
    check_throws(ErrorKind::value, {std::string("assert: column ") + column + ":"},
                 [&] { (void)graph::check_assertion(step(), text); });
  };
  refused("", "1");
  refused("weight < 3", "1");
  refused("saved", "6");
  refused("saved < ", "9");
  refused("saved = 3", "7");
  refused("saved < 3 parsecs", "11");
  refused("saved < 3 & slots > 1", "11");
  refused("saved < 3 && ", "14");
  refused("saved < 1.", "11");
  refused("saved < 1.1234567", "10");
  refused("saved < 1234567890123456789", "9");
  refused("saved(shape=\"3\") < 3", "7");
  refused("count(name=\"a\") < 3", "7");
  refused("saved(module=a) < 3", "14");
  refused("saved(module=\"a) < 3", "15");
  refused("saved(module=\"a\" < 3", "18");
  refused("count(module=\"\",operation=\"softmax\") == 4", "7");
  refused("saved(module=\"a\", name=\"\") < 3", "19");
  refused("square < 3", "8");
  refused("square(x) < 3", "8");
  refused("peak() < 3", "5");
  refused("saved < -1", "9");
}

TEST_CASE("an assertion on the peak needs events") {
  Graph unwatched = step();
  unwatched.steps.clear();
  unwatched.events.clear();
  check_throws(ErrorKind::value, {"no events"},
               [&] { (void)graph::check_assertion(unwatched, "peak > 0"); });
  CHECK(graph::check_assertion(unwatched, "saved > 0").holds);
}

TEST_CASE("tapehead graph assert tells by its exit code whether the expression holds") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  graph::write_json(step(), folder.file("step.json"));
  const auto run = [&](const std::string& expression, const std::string& options = "") {
    return run_program("graph assert " + file + " '" + expression + "' " + options + " > " + out +
                       " 2>&1");
  };
  CHECK(run("square(512) == 0 && peak < 1GiB") == 0);
  CHECK(run("slots == 1") == 1);
  const std::string text = io::read_file("test", out);
  CHECK(text.find("found: " + std::to_string(step().saved.size()) + "\n") != std::string::npos);
  CHECK(run("slots > 1 && count(operation=\"softmax\") == 2") == 0);
  const std::string two = io::read_file("test", out);
  const std::size_t end = two.find('\n') + 1;
  CHECK(two.find("   found: ") == two.find("   found: ", end) - end);
  CHECK(run("slots == 1 || peak > 1", "--json") == 0);
  const nlohmann::json report = nlohmann::json::parse(io::read_file("test", out));
  CHECK(report["holds"] == true);
  CHECK(report["comparisons"][0]["figure"] == step().saved.size());
  CHECK(run("slots === 1") == 2);
  CHECK(io::read_file("test", out).find("column 9:") != std::string::npos);
}
