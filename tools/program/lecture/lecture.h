// tapehead lecture: the figures of the lecture "Self-attention and multi-head attention", computed
// with Tapehead's own operations. The lecture's script has eleven groups of checks and its
// reference implementation a self-test; group 12 is what its text claims without a figure. A source
// file here is named after the section whose claims it checks.
#pragma once

#include "check.h"

#include <string>
#include <vector>

namespace tapehead::program::lecture {

struct LectureOptions {
  std::string only = {};  ///< the id of one group; all when empty
  int repeats = 20;       ///< of medians over 20 seeds, for their spread; fewer say little of it
  bool json = false;
};

/// The groups in order. ValueError: no group has the id `only`, or repeats < 2.
std::vector<Group> lecture_checks(const LectureOptions& options);

/// Computes the checks and prints them to standard output. Returns the exit code, as report().
int run_lecture(const LectureOptions& options);

}  // namespace tapehead::program::lecture
