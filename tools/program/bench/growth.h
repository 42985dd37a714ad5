// tapehead bench --growth: how costs grow with the sizes.
#pragma once

namespace tapehead::program::bench {

/// Prints a table for each: attention over time 128 to 8192, composed and fused; a Gpt of 1 to 24
/// layers; a tape of 10^3 to 10^6 nodes, and its dump. Beside each figure stands the power of the
/// size with which it grew since the row above. Returns the exit code.
int run_growth(int threads, bool as_json);

}  // namespace tapehead::program::bench
