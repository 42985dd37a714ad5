// The scenarios of `tapehead bench`: pieces of work as a small model does them.
#pragma once

#include <tapehead/core/tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::program::bench {

/// What one iteration gets done, for a rate: `amount` units.
struct Work {
  double amount = 0;
  const char* unit = "";  ///< "tokens", "bytes", "flops" or "nodes"
};

/// A scenario with its data, ready to run.
struct Subject {
  std::function<void()> iterate;  ///< one whole iteration: what is timed
  Work work;
  std::int64_t saved_bytes = 0;  ///< that a tape keeps for the backward pass, parameters apart
  /// Runs once and compares with the composed computation in float64. The result is the largest
  /// error of a tensor: max |ours - reference| / max |reference|.
  std::function<double()> error;
};

struct Scenario {
  const char* name;
  const char* what;  ///< sizes and all, on one line
  std::function<Subject()> make;
};

/// All scenarios, in the order of the report.
const std::vector<Scenario>& scenarios();

std::vector<Scenario> elementwise_scenarios();
std::vector<Scenario> attention_scenarios();
std::vector<Scenario> training_scenarios();

/// x + step + step ...: a tape of so many nodes.
Tensor chain(Tensor x, const Tensor& step, std::int64_t nodes);

/// The largest error that a scenario may have. Float32 rounds by 6e-8 at most, and a thousand
/// roundings one after the other, as op_overhead has, may add up to 6e-5 in the worst case and to
/// half of it in a sum that doubles. A wrong term is 1e-2 and more.
inline constexpr double error_bound = 5e-5;

}  // namespace tapehead::program::bench
