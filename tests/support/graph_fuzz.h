// Damaged graph files: mutations of valid dumps, read and, where they are accepted, put through
// every report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapehead::tests {

struct FuzzCounts {
  std::int64_t refused = 0;   ///< by from_json, with a ValueError
  std::int64_t accepted = 0;  ///< then every report ran, or refused with a ValueError
};

/// Small dumps that between them have every kind of row: a step with fused and composed attention,
/// a checkpoint, packed slots, and a tape without events.
std::vector<std::string> valid_dumps();

/// Mutates the dumps `runs` times with a generator of that seed. Anything but a ValueError ends
/// it: an exception of another kind passes through, with the text in `last`.
FuzzCounts fuzz_graph_files(std::uint64_t seed, std::int64_t runs, std::string& last);

/// Puts a graph file through every report. Whether from_json accepted it.
bool read_and_report(const std::string& text);

}  // namespace tapehead::tests
