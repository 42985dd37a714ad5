// tapehead bench: what it measures, how it compares, and the command. How long things take is not
// tested.
#include "../tools/program/bench/bench.h"
#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/values.h"

#include "../tools/program/bench/agreement.h"
#include "../tools/program/bench/isolated.h"
#include "../tools/program/bench/report.h"

#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/matmul.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <csignal>
#include <set>
#include <sstream>
#include <stdexcept>

using namespace tapehead;
namespace bench = tapehead::program::bench;
using nlohmann::json;
using tests::contains;
using tests::not_a_number;
using tests::run_program;

namespace {

bench::Result some_result() {
  return {.scenario = "softmax",
          .timing = {0.25, 0.125, 0.5, 7},
          .work = {5e8, "bytes"},
          .error = 1e-7,
          .saved_bytes = 3,
          .peak_bytes = 1 << 20,
          .idle_resident = 5,
          .peak_resident = 2 << 20};
}

}  // namespace

TEST_CASE("measure: minimum, median and p90 stand in order, and at least five iterations count") {
  std::int64_t calls = 0;
  const bench::Timing timing = bench::measure([&] { ++calls; }, 0);
  CHECK(timing.iterations == 5);
  CHECK(calls == 7);
  CHECK(timing.minimum <= timing.median);
  CHECK(timing.median <= timing.p90);
}

TEST_CASE("the largest error is that of the worst tensor, by the largest value of its reference") {
  const Tensor reference = tensor({1, -4}, DType::f64), other = tensor({8, 8}, DType::f64);
  CHECK(bench::largest_error({tensor({1, -4}), tensor({8, 8})}, {reference, other}) == 0);
  CHECK(bench::largest_error({tensor({1, -3}), tensor({8, 9})}, {reference, other}) == 0.25);
  CHECK(bench::largest_error({tensor({1, -4}), tensor({8, 10})}, {reference, other}) == 0.25);
  CHECK(std::isnan(
      bench::largest_error({tensor({1, -4}), tensor({8, not_a_number})}, {reference, other})));
  CHECK(std::isinf(bench::largest_error({tensor({1, 0})}, {tensor({0, 0}, DType::f64)})));
}

TEST_CASE("flops of products count the forward pass once and the backward pass twice") {
  CHECK(bench::product_flops([] {
          return matmul(parameter(ones({2, 3})), ones({3, 5}));
        }) == 3 * 2 * 2 * 3 * 5);
}

TEST_CASE("work in a process of its own: its text, its exception, its death") {
  const bench::Isolated good = bench::run_isolated([] { return std::string(100000, 'x'); });
  CHECK(good.text == std::string(100000, 'x'));
  CHECK(good.complaint == "");
  CHECK(bench::run_isolated([]() -> std::string {
          throw std::runtime_error("no luck");
        }).complaint == "no luck");
  CHECK(bench::run_isolated([]() -> std::string {
          std::raise(SIGKILL);
          return "";
        }).complaint == "signal 9");
}

TEST_CASE("a result as JSON reads back") {
  const std::string line = bench::json_line(some_result(), 2);
  CHECK(bench::json_line(bench::from_json_line(line), 2) == line);
  const json fields = json::parse(line);
  CHECK(fields["format"] == "tapehead-bench/1");
  CHECK(fields["median_ms"] == 250);
  CHECK(fields["threads"] == 2);
  bench::Result broken = some_result();
  broken.error = not_a_number;
  CHECK(std::isnan(bench::from_json_line(bench::json_line(broken, 1)).error));
}

TEST_CASE("a result as a line has its rate in the unit of its work, and fits on the page") {
  CHECK(contains(bench::table_line(some_result()), "2.0 GB/s"));
  bench::Result result = some_result();
  for (const auto& [unit, rate] : std::vector<std::pair<const char*, std::string>>{
           {"flops", "2.0 GFLOP/s"}, {"tokens", "2000000000 tokens/s"}, {"nodes", "0 ns/node"}}) {
    result.work.unit = unit;
    CHECK(contains(bench::table_line(result), rate));
  }
  CHECK(bench::table_line(some_result()).size() <= 101);
  CHECK(bench::table_heading(2).find("2 threads") == 0);
}

TEST_CASE("every scenario has a name of its own, and says what it does") {
  std::set<std::string> names;
  for (const bench::Scenario& scenario : bench::scenarios()) {
    CHECK(names.insert(scenario.name).second);
    CHECK(std::string(scenario.what) != "");
  }
}

TEST_CASE("tapehead bench runs what is asked for, and its results agree with float64") {
  const tests::Folder folder;
  const std::string out = folder.file("out").string();
  const std::string arguments = "bench --budget 0.001 --scenario op_overhead,mlp_step ";
  REQUIRE(run_program(arguments + "--json --threads 1 > " + out) == 0);
  std::istringstream lines(io::read_file("test", out));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const json result = json::parse(line);
    names.push_back(result["scenario"]);
    CHECK(result["error"] > 0);
    CHECK(result["error"] < bench::error_bound);
    CHECK(result["iterations"] >= 5);
    CHECK(result["median_ms"] > 0);
    CHECK(result["peak_bytes"] > 0);
    CHECK(result["peak_resident_bytes"] >= result["idle_resident_bytes"]);
  }
  CHECK(names == std::vector<std::string>{"op_overhead", "mlp_step"});
  REQUIRE(run_program(arguments + "> " + out) == 0);
  CHECK(contains(io::read_file("test", out), "ns/node"));
}

TEST_CASE("tapehead bench refuses what it cannot do with one line and exit code 2") {
  const tests::Folder folder;
  const std::string err = folder.file("err").string();
  for (const auto& [given, what] : std::vector<std::pair<std::string, std::string>>{
           {"--scenario 'mha*,nothing'", "--scenario nothing matches none"},
           {"--threads -1", "--threads -1"},
           {"--budget 0", "--budget 0: it must be positive"}}) {
    const std::string& arguments = given;  // a structured binding is not for CAPTURE, in clang 14
    CAPTURE(arguments);
    CHECK(run_program("bench " + arguments + " 2> " + err + " > /dev/null") == 2);
    const std::string complaint = io::read_file("test", err);
    CHECK(contains(complaint, what));
    CHECK(std::count(complaint.begin(), complaint.end(), '\n') == 1);
  }
}
