#include "report.h"

#include <cstdio>
#include <ostream>

namespace tapehead::program::lecture {

namespace {

void print_row(std::ostream& out, const char* verdict, const std::string& name,
               const std::string& lecture, const std::string& ours, const std::string& bound) {
  char line[256];
  std::snprintf(line, sizeof line, "%-4s %-43s %-12s %-10s %s\n", verdict, name.c_str(),
                lecture.c_str(), ours.c_str(), bound.c_str());
  out << line;
}

void print(std::ostream& out, const Group& group) {
  out << "(" << group.id << ") " << group.title << "\n     " << group.setting << "\n";
  for (const Check& check : group.checks) {
    print_row(out, check.passed() ? "ok" : "FAIL", check.name, check.lecture.text,
              format(check.ours), to_string(check.bound));
    if (!check.note.empty()) out << "       " << check.note << "\n";
  }
  out << "\n";
}

}  // namespace

// For a terminal of 100 columns.
void print_table(std::ostream& out, const std::vector<Group>& groups) {
  out << "spread: the mean of our medians over 20 seeds, three standard deviations to either "
         "side.\n"
         "There the lecture's figure must lie, give or take its rounding. Other bounds hold ours.\n"
         "\n";
  print_row(out, "", "", "lecture", "ours", "bound");
  for (const Group& group : groups) print(out, group);
  const Count total = count(groups);
  out << total.passed << " passed, " << total.failed << " failed\n";
}

Count count(const std::vector<Group>& groups) {
  Count count;
  for (const Group& group : groups)
    for (const Check& check : group.checks) ++(check.passed() ? count.passed : count.failed);
  return count;
}

int report(std::ostream& out, const std::vector<Group>& groups, bool json) {
  json ? print_json(out, groups) : print_table(out, groups);
  return count(groups).failed == 0 ? 0 : 1;
}

}  // namespace tapehead::program::lecture
