#include <tapehead/graph/glob.h>

#include <string>

namespace tapehead::graph {

bool matches(std::string_view pattern, std::string_view name) {
  const std::string wanted = "*" + std::string(pattern) + "*";
  std::size_t p = 0, n = 0, star = 0, star_end = 0;
  while (n < name.size()) {
    if (p < wanted.size() && wanted[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < wanted.size() && (wanted[p] == '?' || wanted[p] == name[n])) {
      ++p;
      ++n;
    } else {
      p = star + 1;
      n = ++star_end;
    }
  }
  return wanted.find_first_not_of('*', p) == std::string::npos;
}

}  // namespace tapehead::graph
