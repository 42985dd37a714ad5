#include "report.h"

#include <tapehead/graph/text.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "../environment.h"

namespace tapehead::program::bench {
namespace {

using graph::fixed;
using graph::left;
using graph::right;
using nlohmann::json;

std::string milliseconds(double seconds) { return fixed(seconds * 1e3, seconds < 1e-2 ? 3 : 1); }

std::string mebibytes(std::int64_t bytes) {
  return bytes < 0 ? "?" : fixed(static_cast<double>(bytes) / (1 << 20), 1);
}

double rate(const Result& result) { return result.work.amount / result.timing.median; }

std::string rate_text(const Result& result) {
  const std::string unit = result.work.unit;
  if (unit == "bytes") return fixed(rate(result) / 1e9, 1) + " GB/s";
  if (unit == "flops") return fixed(rate(result) / 1e9, 1) + " GFLOP/s";
  if (unit == "nodes") return fixed(1e9 / rate(result), 0) + " ns/node";
  return fixed(rate(result), 0) + " tokens/s";
}

// Work points at a literal.
const char* unit_named(const std::string& name) {
  for (const char* unit : {"tokens", "bytes", "flops", "nodes"})
    if (name == unit) return unit;
  return "";
}

}  // namespace

std::string table_heading(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", BLAS kernels for " +
         blas_kernels() + "; times in ms, memory in MiB\n" + left(17, "scenario") +
         right(9, "median") + right(9, "minimum") + right(9, "p90") + right(16, "rate") +
         right(9, "saved") + right(9, "tensors") + right(10, "resident") + right(10, "error") +
         "\n";
}

std::string table_line(const Result& result) {
  char error[32];
  std::snprintf(error, sizeof error, "%.0e", result.error);
  return left(17, result.scenario) + right(9, milliseconds(result.timing.median)) +
         right(9, milliseconds(result.timing.minimum)) + right(9, milliseconds(result.timing.p90)) +
         right(16, rate_text(result)) + right(9, mebibytes(result.saved_bytes)) +
         right(9, mebibytes(result.peak_bytes)) + right(10, mebibytes(result.peak_resident)) +
         right(10, error) + "\n";
}

std::string json_line(const Result& result, int threads) {
  const json line = {{"format", "tapehead-bench/1"},
                     {"scenario", result.scenario},
                     {"threads", threads},
                     {"median_ms", result.timing.median * 1e3},
                     {"min_ms", result.timing.minimum * 1e3},
                     {"p90_ms", result.timing.p90 * 1e3},
                     {"iterations", result.timing.iterations},
                     {"work", result.work.amount},
                     {"work_unit", result.work.unit},
                     {"error", result.error},
                     {"saved_bytes", result.saved_bytes},
                     {"peak_bytes", result.peak_bytes},
                     {"idle_resident_bytes", result.idle_resident},
                     {"peak_resident_bytes", result.peak_resident}};
  return line.dump();
}

Result from_json_line(const std::string& text) {
  const json line = json::parse(text);
  const auto seconds = [&](const char* field) { return line[field].get<double>() / 1e3; };
  // A NaN is written as null.
  const json& error = line["error"];
  return {
      .scenario = line["scenario"],
      .timing = {seconds("median_ms"), seconds("min_ms"), seconds("p90_ms"), line["iterations"]},
      .work = {line["work"], unit_named(line["work_unit"])},
      .error = error.is_null() ? std::numeric_limits<double>::quiet_NaN() : error.get<double>(),
      .saved_bytes = line["saved_bytes"],
      .peak_bytes = line["peak_bytes"],
      .idle_resident = line["idle_resident_bytes"],
      .peak_resident = line["peak_resident_bytes"]};
}

}  // namespace tapehead::program::bench
