#include <tapehead/graph/glob.h>
#include <tapehead/graph/internal/module_path.h>

#include <string>

namespace tapehead::graph {

bool matches(std::string_view pattern, std::string_view name) {
  return matches_whole("*" + std::string(pattern) + "*", name);
}

// The usual loop: after a failed match go back to the last star and let it take one character more.
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

std::optional<std::string_view> matching_module(std::string_view pattern, std::string_view path) {
  if (path.empty()) {
    const bool found = pattern == root_name || (!pattern.empty() && matches_whole(pattern, path));
    return found ? std::optional(path) : std::nullopt;
  }
  for (const std::string_view name : split_path(path)) {
    const auto end = static_cast<std::size_t>(name.data() + name.size() - path.data());
    if (matches_whole(pattern, path.substr(0, end))) return path.substr(0, end);
  }
  return {};
}

bool matches_module(std::string_view pattern, std::string_view path) {
  return matching_module(pattern, path).has_value();
}

}  // namespace tapehead::graph
