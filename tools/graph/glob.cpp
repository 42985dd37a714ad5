#include <tapehead/graph/glob.h>

#include <string>

namespace tapehead::graph {

bool matches(std::string_view pattern, std::string_view name) {
  return matches_whole("*" + std::string(pattern) + "*", name);
}

bool matches_whole(std::string_view wanted, std::string_view name) {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t p = 0, n = 0, star = none, star_end = 0;
  while (n < name.size()) {
    if (p < wanted.size() && wanted[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < wanted.size() && (wanted[p] == '?' || wanted[p] == name[n])) {
      ++p;
      ++n;
    } else if (star == none) {
      return false;
    } else {
      p = star + 1;
      n = ++star_end;
    }
  }
  return wanted.find_first_not_of('*', p) == none;
}

bool matches_module(std::string_view pattern, std::string_view path) {
  return matches(pattern, path) || (path.empty() && pattern == root_name);
}

bool matches_whole_module(std::string_view pattern, std::string_view path) {
  if (!path.empty()) return matches_whole(pattern, path);
  return pattern == root_name || (!pattern.empty() && matches_whole(pattern, path));
}

}  // namespace tapehead::graph
