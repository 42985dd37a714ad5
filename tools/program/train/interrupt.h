// Ctrl-C as a wish: the loop sees it between two steps and ends in order. A second one ends the
// process at once.
#pragma once

#include <csignal>

namespace tapehead::program {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the process. What handled SIGTERM
/// before is called as well. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool requested() const;

 private:
  struct sigaction previous_int_;
  struct sigaction previous_term_;
};

}  // namespace tapehead::program
