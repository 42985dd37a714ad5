// tapehead bench: how long pieces of work take, and how much memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure.h"
#include "scenario.h"

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

/// What one scenario came to. Memory is that of its own process.
struct Result {
  std::string scenario;
  Timing timing;  ///< seconds
  Work work;
  double error = 0;                 ///< against float64, before the timing; 0 unchecked
  std::int64_t saved_bytes = 0;     ///< that the backward pass keeps, parameters apart
  std::int64_t peak_bytes = 0;      ///< of tensors
  std::int64_t idle_resident = -1;  ///< bytes of physical memory before the first iteration
  std::int64_t peak_resident = -1;  ///< at the peak, after it
};

/// Runs each scenario in a process of its own, prints the report, and returns the exit code: 1 when
/// a scenario's result is wrong or its process died. ValueError: a pattern matches no scenario, or
/// a number is out of range.
int run_bench(const BenchCommand& command);

/// Lines for a table, and one JSON object (tapehead-bench/1) for a line.
std::string table_heading(int threads);
std::string table_line(const Result& result);
std::string json_line(const Result& result, int threads);
/// The reverse of json_line.
Result from_json_line(const std::string& line);

}  // namespace tapehead::program::bench
