// Malformed, truncated, hostile and huge graph files: a clear error, never a crash. The long run of
// the same is graph_fuzz_long_test.
#include "support/graph_fuzz.h"
#include "support/checks.h"
#include "support/folder.h"
#include "support/process.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/graph/json.h>
#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

std::string times(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

void check_refused(const std::string& text) {
  CHECK_THROWS_AS((void)graph::from_json(text), ValueError);
}

// A tape's dump with `from` replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = valid_dumps().front();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("valid dumps are accepted, and every report can be made of them") {
  for (const std::string& dump : valid_dumps()) CHECK(read_and_report(dump));
}

TEST_CASE("mutated graph files are refused with an error, or every report can be made of them") {
  std::string last;
  try {
    const FuzzCounts counts = fuzz_graph_files(1, 2000, last);
    CHECK(counts.refused > 500);
    CHECK(counts.accepted > 200);
  } catch (const std::exception& error) {
    FAIL(error.what() << " from this file:\n" << last);
  }
}

TEST_CASE("a file cut off anywhere is refused") {
  const std::string dump = valid_dumps().front();
  for (std::size_t length = 0; length + 2 < dump.size(); length += 7)
    check_refused(dump.substr(0, length));
}

TEST_CASE("deeply nested files are refused without running out of stack") {
  run_with_small_stack([] {
    constexpr std::size_t depth = 200'000;
    for (const char* open : {"[", "{\"a\": ", "[{\"a\": "}) {
      const std::string deep = times(depth, open);
      check_refused(deep);
      check_refused("{\"format\": " + deep);
      check_refused(with("\"inputs\": [", "\"inputs\": [" + deep));
      check_refused(with("\"attributes\": [", "\"attributes\": [" + deep));
    }
    const std::string closed = times(depth, "[") + times(depth, "]");
    check_refused(closed);
    check_refused("{\"format\": " + closed + "}");
    check_refused(with("\"inputs\": [", "\"inputs\": [" + closed + ", "));
    check_refused(with("\"nodes\": [", "\"nodes\": [" + closed + ", "));
    check_refused(with("\"flops\": 0", "\"flops\": " + closed));
  });
}

TEST_CASE("a module path of many names is no deep recursion") {
  const std::string deep = times(500'000, "a.") + "a";
  CHECK(read_and_report(with("\"module\": \"layers.0\"", "\"module\": \"" + deep + "\"")));
}

TEST_CASE("counts that no memory can hold are refused, not tried") {
  const std::string huge = "9223372036854775807";
  check_refused(with("\"shape\": [1, 2, 3, 2]", "\"shape\": [" + huge + ", 2, 3, 2]"));
  check_refused(with("\"storage\": 0", "\"storage\": " + huge));
  check_refused(with("\"bytes\": ", "\"bytes\": 922337203685477580"));
  check_refused(with("\"step\": 1", "\"step\": " + huge));
  check_refused(with("\"node\": 1", "\"node\": " + huge));
  check_refused(with("\"live_before\": ", "\"live_before\": 922337203685477580"));
  check_refused(with("\"flops\": ", "\"flops\": 1" + huge));
  check_refused(with("\"shape\": [", "\"shape\": [" + times(100'000, "1, ")));
}

TEST_CASE("what-if questions about counts near the limit are refused where they would overflow") {
  Graph graph = graph::from_json(valid_dumps().front());
  const std::int64_t large = std::int64_t{1} << 61;
  for (Graph::Node& node : graph.nodes)
    if (node.operation == "matmul") node.flops = large;
  CHECK(read_and_report(graph::to_json(graph)));
  graph.live_before = 3 * large;
  CHECK(read_and_report(graph::to_json(graph)));
}

TEST_CASE("the program meets a bad graph file with one line and exit code 2") {
  const Folder folder;
  const std::string file = folder.file("bad.json").string(), err = folder.file("err").string();
  const std::string dump = valid_dumps().front();
  const std::vector<std::string> bad = {
      "",
      "\n",
      "{}",
      "null",
      std::string("\0\1\2", 3),
      "\xff\xfe{",
      dump.substr(0, dump.size() / 2),
      dump + "x",
      times(1'000'000, "["),
      with("\"phase\": \"forward\"", "\"phase\": \"sideways\n\"")};
  const auto check = [&](const std::string& command, const std::string& text,
                         const std::string& rest = "") {
    std::ofstream(file, std::ios::binary) << text;
    CHECK(run_program("graph " + command + " " + file + rest + " > /dev/null 2> " + err) == 2);
    const std::string complaint = io::read_file("test", err);
    CHECK(std::count(complaint.begin(), complaint.end(), '\n') == 1);
    CHECK(complaint.find("bad.json") != std::string::npos);
  };
  for (const std::string& text : bad) check("summary", text);
  for (const char* command :
       {"saved", "timeline", "peak", "flops", "dot", "trace", "lint", "whatif --checkpoint x"})
    check(command, bad.back());
  check("assert", bad.back(), " 'saved > 0'");
  check("diff", bad.back(), " " + file);
  CHECK(run_program("graph summary " + folder.file("").string() + " 2> " + err) == 2);
  CHECK(run_program("graph summary " + folder.file("absent").string() + " 2> " + err) == 2);
}
