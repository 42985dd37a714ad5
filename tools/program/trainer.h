// The model of a run and its optimizer, one step at a time.
#pragma once

#include <tapehead/nn/gpt.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/schedule.h>

#include <optional>

#include "batches.h"
#include "corpus.h"
#include "run_state.h"

namespace tapehead::program {

class Trainer {
 public:
  /// Draws the weights from the run's seed. `corpus` outlives the trainer. ValueError when the part
  /// to learn from is not longer than the context, the other has fewer than two characters, or the
  /// machine has too little memory (memory_need.h).
  Trainer(RunState state, const Corpus& corpus);

  /// One step; its loss, in nats a character, is the last of state().losses. ValueError when the
  /// loss is not finite; then nothing was changed.
  void step();

  /// Puts parameters and optimizer where a checkpoint had them.
  void restore(const nn::StateDict& parameters, const nn::StateDict& optimizer);

  RunState& state() { return state_; }
  const nn::Gpt& model() const { return model_; }
  nn::Optimizer& optimizer() { return optimizer_; }

 private:
  nn::CosineSchedule schedule() const;

  RunState state_;
  nn::Gpt model_;
  nn::AdamW optimizer_;
  RandomBatches batches_;
};

/// The model that these options and this vocabulary describe, its weights drawn from the seed.
nn::Gpt make_model(const TrainOptions& options, std::int64_t vocabulary_size);

}  // namespace tapehead::program
