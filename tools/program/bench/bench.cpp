#include "bench.h"

#include <tapehead/core/error.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/parallel.h>
#include <tapehead/graph/glob.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <iostream>

#include "../commands.h"
#include "../option_rules.h"
#include "growth.h"
#include "isolated.h"
#include "report.h"
#include "scenario.h"

namespace tapehead::program::bench {
namespace {

std::vector<Scenario> chosen(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return scenarios();
  std::vector<Scenario> found;
  for (const std::string& pattern : patterns) {
    const std::size_t before = found.size();
    for (const Scenario& scenario : scenarios())
      if (graph::matches_whole(pattern, scenario.name)) found.push_back(scenario);
    if (found.size() == before)
      throw ValueError("bench", "--scenario " + pattern + " matches none; --list shows them all");
  }
  return found;
}

void check(const BenchCommand& command) {
  const OptionRules rules("bench");
  rules.threads(command.threads);
  rules.positive("--budget", command.budget);
}

int threads_of(const BenchCommand& command) {
  return command.threads == 0 ? num_threads() : static_cast<int>(command.threads);
}

// The check's buffers are given back first, or they would count as the scenario's.
Result run(const Scenario& scenario, const BenchCommand& command) {
  const Subject subject = scenario.make();
  Result result{.scenario = scenario.name, .timing = {}, .work = subject.work};
  result.saved_bytes = subject.saved_bytes;
  if (!command.unchecked) result.error = subject.error();
  trim();
  reset_peak();
  result.idle_resident = resident_bytes();
  reset_peak_resident();
  result.timing = measure(subject.iterate, command.budget);
  result.peak_bytes = memory_stats().peak;
  result.peak_resident = peak_resident_bytes();
  return result;
}

bool is_right(const Result& result) { return result.error <= error_bound; }

void complain(const Scenario& scenario, const std::string& what) {
  std::cerr << "tapehead: bench: " << scenario.name << ": " << what << std::endl;
}

// Whether its result is right.
bool run_and_print(const Scenario& scenario, const BenchCommand& command) {
  const int threads = threads_of(command);
  const Isolated output = run_isolated([&] {
    set_num_threads(threads);
    return json_line(run(scenario, command), threads);
  });
  if (!output.complaint.empty()) {
    complain(scenario, output.complaint);
    return false;
  }
  const Result result = from_json_line(output.text);
  std::cout << (command.as_json ? output.text + "\n" : table_line(result)) << std::flush;
  if (is_right(result)) return true;
  complain(scenario, "its result is off by " + std::to_string(result.error) +
                         " of the largest value; " + std::to_string(error_bound) + " is allowed");
  return false;
}

}  // namespace

int run_bench(const BenchCommand& command) {
  check(command);
  const std::vector<Scenario> all = chosen(command.scenarios);
  if (command.list) {
    for (const Scenario& scenario : all)
      std::cout << graph::left(18, scenario.name) << scenario.what << "\n";
    return done;
  }
  if (command.growth) return run_growth(threads_of(command), command.as_json);
  if (!command.as_json) std::cout << table_heading(threads_of(command)) << std::flush;
  bool right = true;
  for (const Scenario& scenario : all) right = run_and_print(scenario, command) && right;
  return right ? done : bad_news;
}

}  // namespace tapehead::program::bench
