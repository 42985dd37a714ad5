// The files of a training run. Each is written whole or not at all, so a run that is killed at any
// moment leaves the last complete save behind.
//
//     checkpoint.safetensors   parameters, optimizer, losses, and the run as metadata: --resume
//     model.safetensors        parameters, and the model's description as metadata: tapehead sample
//     losses.csv               step, training loss, held-out loss where it was measured
//     graph.json, graph.html   what one step recorded and saved (tapehead-graph/1), and its page
//     previous/                these, of the run that was in the folder before
//     .lock                    held by the process that trains there
#pragma once

#include <tapehead/nn/gpt.h>
#include <tapehead/nn/optimizer.h>

#include <filesystem>

#include "corpus.h"
#include "run_state.h"

namespace tapehead::program {

/// Writes the first three into the folder, which exists. IoError.
void save_run(const std::filesystem::path& folder, const RunState& state, const nn::Gpt& model,
              nn::Optimizer& optimizer);

class Trainer;

struct StoredRun {
  RunState state;
  nn::StateDict parameters;
  nn::StateDict optimizer;
};

/// Whether the folder holds a checkpoint.
bool has_run(const std::filesystem::path& folder);
/// IoError when it does not.
void check_has_run(const std::filesystem::path& folder);
/// IoError when there is none or it cannot be read; ValueError when it is damaged.
StoredRun load_run(const std::filesystem::path& folder);

/// Gives the trainer the parameters and the optimizer's state of a run that load_run read from the
/// folder. ValueError, before anything is changed, when a tensor is missing, unexpected, or of
/// another shape or dtype.
void restore(const StoredRun& run, const std::filesystem::path& folder, Trainer& trainer);

struct StoredModel {
  nn::Gpt model;
  Vocabulary vocabulary;
};

/// The model of a run, whose folder --model names, in evaluation mode. Errors as load_run.
StoredModel load_model(const std::filesystem::path& folder);

}  // namespace tapehead::program
