// tapehead train: what it is told.
#pragma once

#include <string>
#include <vector>

#include "../commands.h"
#include "options.h"

namespace tapehead::program {

/// Trains a character-level language model on any text.
struct TrainCommand {
  TrainOptions options;
  std::string folder = default_folder;
  bool resume = false;
  std::string program = "tapehead";     ///< as it was started, for the command that goes on
  std::vector<std::string> given = {};  ///< names of the options on the command line
};

int run_train(const TrainCommand& command);

}  // namespace tapehead::program
