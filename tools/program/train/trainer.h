// The model of a run and its optimizer, one step at a time.
#pragma once

#include <tapehead/nn/distributed.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/nn/schedule.h>

#include <limits>
#include <optional>

#include "batches.h"
#include "corpus.h"
#include "run_state.h"

namespace tapehead::program {

class Trainer {
 public:
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Draws the weights from the run's seed. `corpus` outlives the trainer. ValueError when the part
  /// to learn from is not longer than the context, the other has fewer than two characters, or the
  /// machine has too little memory (memory_need.h).
  Trainer(RunState state, const Corpus& corpus);

  /// Collective, as what follows it: from then on the ranks of the group make every step together,
  /// with a batch of each, from the parameters and the optimizer's state that rank 0 has.
  /// StateError when they are not at the same step of the same run.
  void join(nn::ProcessGroup& group);

  /// One step; its loss, in nats a character, is the last of state().losses. ValueError when the
  /// loss is not finite; then nothing was changed.
  void step();

  /// As program::held_out_loss, of the model as it is now, without dropout. ValueError when it is
  /// not finite.
  double held_out_loss(std::int64_t max_windows = std::numeric_limits<std::int64_t>::max());

  /// ValueError when the last update left a model whose loss on a piece of the held-out text is not
  /// finite. Not collective.
  void check_model();

  /// Puts parameters and optimizer where a checkpoint had them.
  void restore(const nn::StateDict& parameters, const nn::StateDict& optimizer);

  RunState& state() { return state_; }
  nn::Gpt& model() { return model_; }
  nn::Optimizer& optimizer() { return optimizer_; }
  nn::ProcessGroup& group() { return *group_; }
  const nn::DataParallel::Traffic& traffic() const { return parallel_->traffic(); }

 private:
  double held_out_loss(std::int64_t max_windows, nn::ProcessGroup* group);
  nn::CosineSchedule schedule() const;
  Gradients gradients(const Batch& batch, double& loss);
  RandomBatches batches() const;

  RunState state_;
  const Corpus& corpus_;
  nn::Gpt model_;
  nn::AdamW optimizer_;
  nn::OneProcess alone_;
  nn::ProcessGroup* group_ = &alone_;
  std::optional<nn::DataParallel> parallel_;
};

/// The model that these options and this vocabulary describe, its weights drawn from the seed.
nn::Gpt make_model(const TrainOptions& options, std::int64_t vocabulary_size);

}  // namespace tapehead::program
