// tapehead plan: what it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tapehead::program {

/// What training a model would cost, and whether it fits. A size that is given replaces that of the
/// model; without a model all sizes are needed.
struct PlanCommand {
  std::optional<std::string> model = {};  ///< a name, or a file
  std::optional<std::int64_t> layers = {}, heads = {}, dim = {}, context = {}, vocabulary = {};
  std::optional<double> dropout = {};
  bool tied_output = false;
  std::optional<std::int64_t> batch = {};  ///< 1 when not given
  std::string dtype = "f32";               ///< f32, f64, bf16 or f16
  std::string attention = "composed";      ///< composed or fused
  std::string checkpoint = "none";         ///< none, block or attention
  std::string optimizer = "adamw";         ///< sgd or adamw
  std::optional<std::string> memory = {};
  std::optional<std::string> fit = {};  ///< batch or context: the largest that fits in `memory`
  std::optional<std::int64_t> ranks = {};
  std::optional<double> bandwidth = {}, latency = {}, gflops = {};  ///< GB/s, us, GFLOP/s
  bool formula = false;
  bool as_json = false;
};

/// Exit code 1 when it does not fit for certain, or when nothing does.
int run_plan(const PlanCommand& command);

}  // namespace tapehead::program
