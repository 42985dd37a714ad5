#include "lecture.h"

#include "groups.h"
#include "report.h"

#include <tapehead/core/error.h>

#include <iostream>

namespace tapehead::program::lecture {

namespace {

struct Entry {
  const char* id;
  Group (*run)(int repeats);
};

constexpr Entry entries[] = {
    {"1", projections_break_symmetry},
    {"2", permutation_equivariance},
    {"3", convex_hull},
    {"4", rank_collapse},
    {"5", backward_by_hand},
    {"6", gradient_isolation},
    {"7", left_padding},
    {"8", one_head_or_two},
    {"9", parameters_and_flops},
    {"10", memory},
    {"11", initial_attention},
    {"12", claims_without_figures},
    {"self-test", reference_self_test},
};

}  // namespace

std::vector<Group> lecture_checks(const LectureOptions& options) {
  if (options.repeats < 2)
    throw ValueError("lecture",
                     "repeats " + std::to_string(options.repeats) + ": at least 2, for a spread");
  std::vector<Group> groups;
  for (const Entry& entry : entries)
    if (options.only.empty() || options.only == entry.id)
      groups.push_back(entry.run(options.repeats));
  if (groups.empty())
    throw ValueError("lecture",
                     "no group \"" + options.only + "\": there are 1 to 12 and self-test");
  return groups;
}

int run_lecture(const LectureOptions& options) {
  return report(std::cout, lecture_checks(options), options.json);
}

}  // namespace tapehead::program::lecture
