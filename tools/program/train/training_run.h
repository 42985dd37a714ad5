// A training run from its first step, or from where it was left, to its end.
#pragma once

#include <filesystem>

#include "interrupt.h"
#include "progress.h"
#include "trainer.h"

namespace tapehead::program {

/// How it ended.
enum class RunEnd { finished, interrupted, out_of_time };

class TrainingRun {
 public:
  /// Saves into `folder`, which can be written to.
  TrainingRun(Trainer& trainer, std::filesystem::path folder);

  /// Steps, measures the held-out loss now and then, and saves every ten seconds, or less often
  /// where saving takes more than half a second, and at the end. Shows how it is
  /// doing on stdout. After Ctrl-C it finishes the step and saves. A new run saves after its
  /// second step, or after its only one; that step is written to graph.json and graph.html, and
  /// what its backward pass keeps is printed. Of several ranks the first one writes.
  RunEnd run();

 private:
  void step();
  void first_steps();
  void write_graph(const Graph& graph) const;
  bool is_milestone() const;
  std::int64_t estimated_length() const;
  void estimate_length();
  bool out_of_time() const;
  bool ends_early(const InterruptGuard& interrupt);
  Status status() const;
  void save();

  double elapsed() const { return now_seconds() - started_; }
  std::int64_t timed_steps() const { return state_.step - timed_from_step_; }
  double timed_seconds() const { return now_seconds() - timed_from_; }

  Trainer& trainer_;
  RunState& state_;
  std::filesystem::path folder_;
  const bool is_new_, is_writer_;
  bool interrupted_ = false;
  const double seconds_before_;
  double started_ = 0;
  double last_save_ = 0;
  double seconds_between_saves_ = 10;
  // The first step of a session is slower than the others; the clock runs from its end.
  std::int64_t timed_from_step_ = 0;
  double timed_from_ = 0;
  double pace_ = 0;  // seconds a step, lately; 0 when not known yet
};

}  // namespace tapehead::program
