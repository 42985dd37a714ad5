// tapehead bench: how long pieces of work take, and how much memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::program::bench {

struct BenchCommand {
  std::vector<std::string> scenarios = {};  ///< names or patterns with * and ?; all when empty
  std::int64_t threads = 0;                 ///< 0: one for each core
  double budget = 1;                        ///< seconds for each scenario's timing
  bool unchecked = false;                   ///< time without checking the results first
  bool growth = false;                      ///< how costs grow with the sizes, not the scenarios
  bool list = false;
  bool as_json = false;
};

/// Runs each scenario in a process of its own, prints the report, and returns the exit code: 1 when
/// a scenario's result is wrong or its process died. ValueError: a pattern matches no scenario, or
/// a number is out of range.
int run_bench(const BenchCommand& command);

}  // namespace tapehead::program::bench
