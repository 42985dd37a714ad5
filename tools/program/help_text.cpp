#include "help_text.h"

#include <sstream>

namespace tapehead::program {
namespace {

// Where the text of a line, or its last column behind two blanks or more, begins; 4 where that is
// too far to the right to leave room.
std::size_t indent_of(const std::string& line, std::size_t columns) {
  const std::size_t gap = line.rfind("  ");
  if (gap == std::string::npos) return 0;
  const std::size_t begin = line.find_first_not_of(' ', gap);
  return begin < columns / 2 ? begin : 4;
}

}  // namespace

std::string wrapped_help(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  std::string wrapped;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = indent_of(line, columns);
    while (line.size() > columns) {
      const std::size_t blank = line.rfind(' ', columns);
      if (blank == std::string::npos || blank <= indent) break;
      wrapped += line.substr(0, blank) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    wrapped += line + "\n";
  }
  return wrapped;
}

}  // namespace tapehead::program
