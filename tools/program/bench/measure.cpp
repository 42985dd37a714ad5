#include "measure.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

namespace tapehead::program::bench {
namespace {

constexpr std::size_t fewest = 5;
constexpr int warm_up = 2;

double seconds_of(const std::function<void()>& iterate) {
  const auto start = std::chrono::steady_clock::now();
  iterate();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A line "VmHWM:  1234 kB" of /proc/self/status.
std::int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kilobytes = 0;
  while (status >> word)
    if (word == field + ":" && status >> kilobytes) return kilobytes * 1024;
  return -1;
}

}  // namespace

Timing measure(const std::function<void()>& iterate, double budget) {
  for (int i = 0; i < warm_up; ++i) iterate();
  std::vector<double> times;
  for (double sum = 0; times.size() < fewest || sum < budget; sum += times.back())
    times.push_back(seconds_of(iterate));
  std::sort(times.begin(), times.end());
  const auto count = static_cast<std::int64_t>(times.size());
  return {times[times.size() / 2], times.front(), times[(times.size() - 1) * 9 / 10], count};
}

std::int64_t resident_bytes() { return status_bytes("VmRSS"); }

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM"); }

void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << 5; }

}  // namespace tapehead::program::bench
