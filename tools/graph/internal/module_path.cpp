#include <tapehead/graph/internal/module_path.h>

namespace tapehead::graph {

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty() && parts.size() + 1 < max_module_depth) {
    const std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
  if (!path.empty()) parts.push_back(path);
  return parts;
}

bool lies_in(std::string_view path, std::string_view other) {
  return other.empty() || path == other || (path.starts_with(other) && path[other.size()] == '.');
}

}  // namespace tapehead::graph
