// The commands of the program: what each is told, and the function that does it.
//
// Failures are exceptions: tapehead::Error and CaseFormatError mean bad input. The result is the
// exit code: 1 from a command that worked and has bad news, such as cases that failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train_options.h"

namespace tapehead::program {

constexpr int done = 0;
constexpr int bad_news = 1;
constexpr int bad_input = 2;

/// Of a run, where none is named.
constexpr const char* default_folder = "tapehead-run";

/// Trains a character-level language model on any text.
struct TrainCommand {
  TrainOptions options;
  std::string folder = default_folder;
  bool resume = false;
  std::string program = "tapehead";     ///< as it was started, for the command that goes on
  std::vector<std::string> given = {};  ///< names of the options on the command line
};
int run_train(const TrainCommand& command);

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

/// Writes what a trained model attends to in a text, every layer and head.
struct MapsCommand {
  std::string model = default_folder;  ///< folder of the run
  std::string text = {};               ///< at most as many characters as the model's context
  std::string out = "maps.html";       ///< .html for a page, .json for the numbers
};
int run_maps(const MapsCommand& command);

/// Runs case files against this library.
struct CasesCommand {
  std::vector<std::string> files;
  std::string only = {};
  bool as_json = false;
};
int run_cases(const CasesCommand& command);

}  // namespace tapehead::program
