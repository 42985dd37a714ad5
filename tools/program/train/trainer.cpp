#include "trainer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluate.h"
#include "memory_need.h"

namespace tapehead::program {
namespace {

constexpr double clip_norm = 1;
constexpr double weight_decay = 0.1;
constexpr std::int64_t longest_warmup = 100;
constexpr std::uint64_t dropout_stream = 0x64726f706f757421u;  // another than weights and batches

void check_lengths(const Corpus& corpus, const TrainOptions& options) {
  const auto train = static_cast<std::int64_t>(corpus.train.size());
  if (train <= options.context)
    throw ValueError("train", "--context " + std::to_string(options.context) + ": the text has " +
                                  std::to_string(train) +
                                  " characters to learn from, fewer than the context and one more");
  if (corpus.held_out.size() < 2)
    throw ValueError("train", "the text is too short to hold two characters out");
}

void check_loss(double loss, const std::string& when) {
  if (!std::isfinite(loss))
    throw ValueError("train", when + ": the loss is not finite; a lower --lr may help");
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
                  .dropout = options.dropout,
                  .dtype = floating_dtype(options)},
                 generator);
}

Trainer::Trainer(RunState state, const Corpus& corpus)
    : state_(std::move(state)),
      corpus_(corpus),
      model_(make_model(state_.options, checked(corpus, state_.options).vocabulary.size())),
      optimizer_(nn::decay_groups(model_),
                 {.lr = state_.options.lr, .betas = {0.9, 0.99}, .weight_decay = weight_decay}) {
  parallel_.emplace(model_, alone_);
}

void Trainer::join(nn::ProcessGroup& group) {
  std::vector<std::string> run{"step " + std::to_string(state_.step) +
                                   (state_.total ? " of " + std::to_string(*state_.total) : ""),
                               "a text with checksum " + std::to_string(state_.checksum)};
  const nlohmann::json options = to_json(state_.options);
  for (const auto& [name, value] : options.items()) run.push_back("--" + name + " " + value.dump());
  nn::check_agreement(group, "train", run);
  group_ = &group;
  parallel_.emplace(model_, group);
  if (group.size() == 1) return;
  const nn::StateDict state = optimizer_.state();
  nn::broadcast(state, group);
  optimizer_.load_state(state);
}

// Until the length of the run is known it is at its beginning: it warms up and stays at the peak.
nn::CosineSchedule Trainer::schedule() const {
  const double peak = state_.options.lr;
  if (!state_.total) return {peak, peak, longest_warmup, longest_warmup};
  return {peak, peak / 10, std::min(longest_warmup, *state_.total / 10), *state_.total};
}

RandomBatches Trainer::batches() const {
  const TrainOptions& o = state_.options;
  return {corpus_.train, o.batch, o.context, o.seed, {group_->rank(), group_->size()}};
}

// The means over all ranks.
Gradients Trainer::gradients(const Batch& batch, double& loss) {
  // A stretch of random numbers for each step of each rank, so that a run which was stopped goes on
  // with those that it would have drawn.
  const auto stretch = static_cast<std::uint64_t>(state_.step * group_->size() + group_->rank())
                       << 32;
  default_generator().set_state({state_.options.seed ^ dropout_stream, stretch});
  Tape tape;
  const Tensor own = next_character_loss(model_, batch);
  Gradients means = parallel_->gradient(tape, own);
  loss = nn::summed(*group_, {own.item()})[0] / group_->size();
  return means;
}

void Trainer::step() {
  const Batch batch = batches().at(state_.step);
  double loss_value = 0;
  Gradients means = gradients(batch, loss_value);
  check_loss(loss_value, "step " + std::to_string(state_.step + 1));
  nn::clip_grad_norm(means, clip_norm);
  optimizer_.set_lr(schedule()(state_.step));
  optimizer_.step(means);
  ++state_.step;
  state_.losses.push_back(loss_value);
}

double Trainer::held_out_loss(std::int64_t max_windows, nn::ProcessGroup* group) {
  const nn::EvalMode without_dropout(model_);
  const double loss =
      program::held_out_loss(model_, corpus_.held_out, state_.options.batch, max_windows, group);
  check_loss(loss, "after step " + std::to_string(state_.step));
  return loss;
}

double Trainer::held_out_loss(std::int64_t max_windows) {
  return held_out_loss(max_windows, group_);
}

void Trainer::check_model() { held_out_loss(1, nullptr); }

void Trainer::restore(const nn::StateDict& parameters, const nn::StateDict& optimizer) {
  model_.load_state_dict(parameters);
  optimizer_.load_state(optimizer);
}

}  // namespace tapehead::program
