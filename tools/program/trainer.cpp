#include "trainer.h"

#include <cmath>

#include "evaluate.h"
#include "memory_need.h"

namespace tapehead::program {
namespace {

constexpr double clip_norm = 1;
constexpr double weight_decay = 0.1;
constexpr std::int64_t longest_warmup = 100;

void check_lengths(const Corpus& corpus, const TrainOptions& options) {
  const auto train = static_cast<std::int64_t>(corpus.train.size());
  if (train <= options.context)
    throw ValueError("train", "--context " + std::to_string(options.context) + ": the text has " +
                                  std::to_string(train) +
                                  " characters to learn from, fewer than the context and one more");
  if (corpus.held_out.size() < 2)
    throw ValueError("train", "the text is too short to hold two characters out");
}

const Corpus& checked(const Corpus& corpus, const TrainOptions& options) {
  check_lengths(corpus, options);
  check_memory(options, corpus.vocabulary.size());
  return corpus;
}

}  // namespace

nn::Gpt make_model(const TrainOptions& options, std::int64_t vocabulary_size) {
  Generator generator(options.seed);
  return nn::Gpt({.vocab_size = vocabulary_size,
                  .context = options.context,
                  .layers = options.layers,
                  .heads = options.heads,
                  .dim = options.dim,
                  .dtype = floating_dtype(options)},
                 generator);
}

Trainer::Trainer(RunState state, const Corpus& corpus)
    : state_(std::move(state)),
      model_(make_model(state_.options, checked(corpus, state_.options).vocabulary.size())),
      optimizer_(nn::decay_groups(model_),
                 {.lr = state_.options.lr, .betas = {0.9, 0.99}, .weight_decay = weight_decay}),
      batches_(corpus.train, state_.options.batch, state_.options.context, state_.options.seed) {}

// Until the length of the run is known it is at its beginning: it warms up and stays at the peak.
nn::CosineSchedule Trainer::schedule() const {
  const double peak = state_.options.lr;
  if (!state_.total) return {peak, peak, longest_warmup, longest_warmup};
  return {peak, peak / 10, std::min(longest_warmup, *state_.total / 10), *state_.total};
}

void Trainer::step() {
  const Batch batch = batches_.at(state_.step);
  double loss_value = 0;
  Gradients gradients = loss_gradients(model_, batch, [&](const Tensor& loss) {
    loss_value = loss.item();
    if (!std::isfinite(loss_value))
      throw ValueError("train", "step " + std::to_string(state_.step + 1) +
                                    ": the loss is not finite; a lower --lr may help");
  });
  nn::clip_grad_norm(gradients, clip_norm);
  optimizer_.set_lr(schedule()(state_.step));
  optimizer_.step(gradients);
  ++state_.step;
  state_.losses.push_back(loss_value);
}

void Trainer::restore(const nn::StateDict& parameters, const nn::StateDict& optimizer) {
  model_.load_state_dict(parameters);
  optimizer_.load_state(optimizer);
}

}  // namespace tapehead::program
