// tapehead lecture: the figures of the lecture "Self-attention and multi-head attention", computed
// with Tapehead's own operations. The lecture's script has eleven groups of checks and its
// reference implementation a self-test; group 12 is what its text claims without a figure. A source
// file here is named after the section whose claims it checks.
#pragma once

#include "check.h"

#include <iosfwd>
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

/// Prints the checks as a table or as JSON. Returns the exit code: 0 if all pass, else 1.
int report(std::ostream& out, const std::vector<Group>& groups, bool json);

/// A heading for each group, a line for each figure, and "N passed, N failed".
void print_table(std::ostream& out, const std::vector<Group>& groups);
/// The same as JSON (tapehead-lecture/1). Infinite ends of bounds, and NaN, are null.
void print_json(std::ostream& out, const std::vector<Group>& groups);

struct Count {
  std::size_t passed = 0, failed = 0;
};
Count count(const std::vector<Group>& groups);

}  // namespace tapehead::program::lecture
