// Groups of checks as a table for people and as JSON for programs.
#pragma once

#include "check.h"

#include <cstddef>
#include <iosfwd>
#include <vector>

namespace tapehead::program::lecture {

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
