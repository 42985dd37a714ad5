// Timing of a repeated piece of work, and the resident memory of the process.
#pragma once

#include <cstdint>
#include <functional>

namespace tapehead::program::bench {

/// Seconds of whole iterations.
struct Timing {
  double median = 0;
  double minimum = 0;
  double p90 = 0;  ///< nine of ten iterations took at most this long
  std::int64_t iterations = 0;
};

/// Repeats `iterate` for about `budget` seconds, at least five times, after two times that do not
/// count: the first fills the buffers that later ones reuse.
Timing measure(const std::function<void()>& iterate, double budget);

/// Bytes of physical memory that the process holds now, and the most that it held since the last
/// reset_peak_resident(); -1 where the system does not tell.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
void reset_peak_resident();

}  // namespace tapehead::program::bench
