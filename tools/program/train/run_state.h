// Where a training run stands: what a checkpoint holds beside parameters and optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace tapehead::program {

struct RunState {
  struct Evaluation {
    std::int64_t step = 0;
    double loss = 0;
    bool operator==(const Evaluation&) const = default;
  };

  TrainOptions options;
  std::string characters;      ///< the vocabulary, as one UTF-8 string
  std::uint64_t checksum = 0;  ///< of the text
  std::int64_t ranks = 1;      ///< that train together
  std::int64_t step = 0;       ///< steps done
  /// Length of the run; under --minutes once it is estimated.
  std::optional<std::int64_t> total = {};
  double seconds = 0;               ///< spent so far
  std::vector<double> losses = {};  ///< of every step
  std::vector<Evaluation> held_out = {};

  bool finished() const { return total && step >= *total; }
};

}  // namespace tapehead::program
