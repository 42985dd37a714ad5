// tapehead sample: what it is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "../commands.h"

namespace tapehead::program {

/// Continues a text with a trained model.
struct SampleCommand {
  std::string model = default_folder;  ///< folder of the run
  std::optional<std::string> prompt = {};
  std::int64_t tokens = 300;
  double temperature = 0.8;
  std::optional<std::int64_t> top_k = {};
  std::uint64_t seed = 1;
};

int run_sample(const SampleCommand& command);

}  // namespace tapehead::program
