// tapehead maps: what a trained model attends to in a text.
#pragma once

#include <string>

namespace tapehead::program {

struct MapsCommand {
  std::string model;               ///< folder of the run
  std::string text;                ///< UTF-8, at most the model's context
  std::string out = "maps.html";  ///< .html for a page, .json for the numbers
};

/// Writes the attention weights of every layer and head. ValueError: a text that is empty, longer
/// than the context or not UTF-8, or has characters that the model does not know; a file of another
/// kind; else as load_model. IoError: the file cannot be written.
int run_maps(const MapsCommand& command);

}  // namespace tapehead::program
