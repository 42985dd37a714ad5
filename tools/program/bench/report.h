// What `tapehead bench` says of a scenario: a line of a table, and of JSON.
#pragma once

#include <cstdint>
#include <string>

#include "measure.h"
#include "scenario.h"

namespace tapehead::program::bench {

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

/// Lines for a table, and one JSON object (tapehead-bench/1) for a line.
std::string table_heading(int threads);
std::string table_line(const Result& result);
std::string json_line(const Result& result, int threads);
/// The reverse of json_line.
Result from_json_line(const std::string& line);

}  // namespace tapehead::program::bench
