// How a training run is doing: one line that is drawn again and again on a terminal, plain lines
// where the output is piped.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tapehead::program {

struct Status {
  std::int64_t step = 0;
  std::optional<std::int64_t> total = {};  ///< unknown until the length of the run is estimated
  double loss = 0;
  std::optional<double> held_out = {};  ///< of the last evaluation, on a part of the text
  std::optional<double> tokens_per_second = {};
  std::optional<double> seconds_left = {};
};

/// "step 120/2000  loss 1.8312  held-out sample 1.9012  6123 tokens/s  2:31 left".
std::string describe(const Status& status);

class Progress {
 public:
  /// `out` is stdout but in tests. The terminal that mpirun gives to a rank is none to draw on.
  explicit Progress(std::FILE* out, bool may_draw = true);
  /// Ends the line that is being drawn.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Draws the bar, at most ten times a second, or prints a line, at most one in ten seconds;
  /// always when this step is a milestone.
  void show(const Status& status, bool milestone);

 private:
  void draw(const Status& status);

  std::FILE* out_;
  bool terminal_;
  bool line_open_ = false;
  double last_shown_ = 0;
};

/// Seconds on a clock that only goes forward.
double now_seconds();

}  // namespace tapehead::program
