// A graph as a drawing for dot, and as a trace for viewers of profiles.
#include "support/checks.h"
#include "support/training_steps.h"

#include <tapehead/graph/dot.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/trace.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>

using namespace tapehead;
using graph::at;
using nlohmann::json;
using tests::contains;
using tests::count;
using tests::real_gpt_step;

TEST_CASE("a drawing quotes names, closes its clusters and has an edge for each slot") {
  Graph graph = real_gpt_step();
  graph.nodes[0].operation = "a\"b\\";
  const std::string dot = graph::to_dot(graph);
  CHECK(contains(dot, "[label=\"a\\\"b\\\\ "));
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
  CHECK(count(dot, "dashed") == graph.saved.size());
}

TEST_CASE(
    "a drawing is a DOT file: each line a known statement, each edge between what is declared") {
  const std::regex text(R"re("([^"\\\\]|\\\\["\\\\])*")re");
  const std::regex box(R"( *([nv]\d+) \[(shape=ellipse, )?label=""\];)");
  const std::regex edge(R"( *([nv]\d+) -> ([nv]\d+)( \[style=dashed, label=""\])?;)");
  const std::regex frame(R"(digraph tapehead \{| *subgraph cluster_\d+ \{| *\}| *label="";)");
  std::istringstream lines(graph::to_dot(real_gpt_step()));
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
  const auto made = std::count_if(real_gpt_step().values.begin(), real_gpt_step().values.end(),
                                  [](const auto& value) { return value.producer < 0; });
  CHECK(std::ssize(declared) == std::ssize(real_gpt_step().nodes) + made);
}

TEST_CASE("a trace's slices of phases lie end to end, and its counters are the timeline's") {
  const graph::Timeline line = graph::timeline(real_gpt_step());
  const json trace = json::parse(graph::to_trace(real_gpt_step()));
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
  CHECK(end == std::ssize(real_gpt_step().steps));
}

TEST_CASE("a trace has a slice and a counter for each step") {
  const graph::Timeline line = graph::timeline(real_gpt_step());
  const json events = json::parse(graph::to_trace(real_gpt_step()))["traceEvents"];
  std::size_t slices = 0, counters = 0;
  for (const json& event : events) {
    if (event["ph"] == "X" && event["tid"] == 2) CHECK(event["ts"] == slices++);
    if (event["ph"] != "C") continue;
    CHECK(event["args"]["saved"] == line.after[counters][at(std::int64_t(Category::saved))]);
    CHECK(event["ts"] == ++counters);
  }
  CHECK(slices == real_gpt_step().steps.size());
  CHECK(counters == real_gpt_step().steps.size());
}
