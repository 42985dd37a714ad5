// tapehead maps: what it is told.
#pragma once

#include <string>

#include "../commands.h"

namespace tapehead::program {

/// Writes what a trained model attends to in a text, every layer and head.
struct MapsCommand {
  std::string model = default_folder;  ///< folder of the run
  std::string text = {};               ///< at most as many characters as the model's context
  std::string out = "maps.html";       ///< .html for a page, .json for the numbers
};

int run_maps(const MapsCommand& command);

}  // namespace tapehead::program
