#include "training_run.h"

#include <tapehead/core/ledger.h>
#include <tapehead/graph/html.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/io/atomic_file.h>

#include <algorithm>
#include <iostream>

#include "checkpoint.h"
#include "ranks.h"

namespace tapehead::program {
namespace {

// About so many milestones a run, but never at a distance so small that they take most of the time.
constexpr std::int64_t milestones = 20;
constexpr std::int64_t least_interval = 10;
constexpr std::int64_t windows_at_milestone = 32;
// Seconds between saves: so many, or more where saving would take more than a part of the time.
constexpr double least_seconds_between_saves = 10;
constexpr double part_for_saves = 0.05;

// The length of a run given in minutes is estimated from the pace of this part of it: long enough
// that a moment in which the machine was busy does not decide. Not all of the rest goes into steps:
// some is spent on milestones.
constexpr double timed_part = 0.2;
constexpr std::int64_t least_timed_steps = 3;
constexpr double part_for_steps = 0.93;
// The pace that is shown: a running mean, in which the newest step counts for this part.
constexpr double newest_part = 0.05;
// When the machine turns out slower than estimated, the run ends after this many times its minutes.
constexpr double patience = 1.2;

}  // namespace

TrainingRun::TrainingRun(Trainer& trainer, std::filesystem::path folder)
    : trainer_(trainer),
      state_(trainer.state()),
      folder_(std::move(folder)),
      is_new_(state_.step == 0),
      is_writer_(trainer.group().rank() == 0),
      seconds_before_(state_.seconds) {
  if (state_.options.steps) state_.total = state_.options.steps;
}

RunEnd TrainingRun::run() {
  const InterruptGuard interrupt;
  started_ = last_save_ = now_seconds();
  if (is_new_) first_steps();
  Progress progress(stdout, !nn::launched_rank());  // mpirun would show a bar as one long line
  while (!state_.finished() && !ends_early(interrupt)) {
    step();
    estimate_length();
    const bool milestone = is_milestone();
    if (milestone)
      state_.held_out.push_back({state_.step, trainer_.held_out_loss(windows_at_milestone)});
    if (now_seconds() - last_save_ > seconds_between_saves_) save();
    progress.show(status(), milestone);
  }
  save();
  if (state_.finished()) return RunEnd::finished;
  return interrupted_ ? RunEnd::interrupted : RunEnd::out_of_time;
}

// The ranks decide together, for none of them can make a step alone.
bool TrainingRun::ends_early(const InterruptGuard& interrupt) {
  const std::vector<double> votes =
      nn::summed(trainer_.group(), {interrupt.requested() ? 1.0 : 0.0, out_of_time() ? 1.0 : 0.0});
  interrupted_ = votes[0] > 0;
  return interrupted_ || votes[1] > 0;
}

void TrainingRun::step() {
  const double before = now_seconds();
  trainer_.step();
  const double seconds = now_seconds() - before;
  if (timed_from_ > 0) {
    pace_ = pace_ == 0 ? seconds : pace_ + newest_part * (seconds - pace_);
  } else {
    timed_from_ = now_seconds();
    timed_from_step_ = state_.step;
  }
}

// The second step is the one to show: it holds the optimizer's state, which the first one makes.
void TrainingRun::first_steps() {
  if (state_.total != 1) step();
  const Ledger ledger;
  step();
  const Graph graph = ledger.graph();
  save();
  if (is_writer_) write_graph(graph);
  std::cout << "\nwhat the backward pass of one step saves (graph.html shows it all, and why):\n"
            << graph::saved_table(graph) << std::endl;
}

void TrainingRun::write_graph(const Graph& graph) const {
  graph::write_json(graph, folder_ / "graph.json");
  const TrainOptions& options = state_.options;
  io::AtomicFile page("train", folder_ / "graph.html");
  page.write(graph::to_html(graph, {.title = "One training step",
                                    .sizes = {{"B", options.batch},
                                              {"T", options.context},
                                              {"d", options.dim},
                                              {"h", options.heads}}}));
  page.commit();
}

bool TrainingRun::is_milestone() const {
  if (!state_.total) return false;
  const std::int64_t interval = std::max(*state_.total / milestones, least_interval);
  return state_.step % interval == 0 || state_.finished();
}

void TrainingRun::save() {
  if (!is_writer_) return;
  const double begin = now_seconds();
  trainer_.check_model();  // of what diverged nothing is saved: the last save goes on
  state_.seconds = seconds_before_ + elapsed();
  save_run(folder_, state_, trainer_.model(), trainer_.optimizer());
  last_save_ = now_seconds();
  seconds_between_saves_ =
      std::max(least_seconds_between_saves, (last_save_ - begin) / part_for_saves);
}

// By the clock of the first rank; 0 while it is too early.
std::int64_t TrainingRun::estimated_length() const {
  const double budget = 60 * state_.options.minutes;
  if (!is_writer_ || timed_steps() < least_timed_steps || timed_seconds() < timed_part * budget)
    return 0;
  const double left = std::max(budget - seconds_before_ - elapsed(), 0.0) * part_for_steps;
  const double steps_a_second = static_cast<double>(timed_steps()) / timed_seconds();
  return state_.step + static_cast<std::int64_t>(left * steps_a_second);
}

void TrainingRun::estimate_length() {
  if (state_.total) return;
  const double estimate =
      nn::summed(trainer_.group(), {static_cast<double>(estimated_length())})[0];
  if (estimate > 0) state_.total = static_cast<std::int64_t>(estimate);
}

// Only where the run was to last so many minutes and was not stopped in between.
bool TrainingRun::out_of_time() const {
  return !state_.options.steps && is_new_ && elapsed() > patience * 60 * state_.options.minutes;
}

Status TrainingRun::status() const {
  Status status{.step = state_.step, .total = state_.total, .loss = state_.losses.back()};
  if (!state_.held_out.empty()) status.held_out = state_.held_out.back().loss;
  if (pace_ == 0) return status;
  const std::int64_t tokens = state_.ranks * state_.options.batch * state_.options.context;
  status.tokens_per_second = static_cast<double>(tokens) / pace_;
  if (state_.total) status.seconds_left = pace_ * static_cast<double>(*state_.total - state_.step);
  return status;
}

}  // namespace tapehead::program
