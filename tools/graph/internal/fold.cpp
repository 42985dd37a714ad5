#include <tapehead/graph/internal/fold.h>

#include <charconv>
#include <optional>

namespace tapehead::graph {
namespace {

std::optional<std::int64_t> as_number(std::string_view name) {
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (name.empty() || name[0] == '-' || error != std::errc() || stop != end) return {};
  return number;
}

}  // namespace

bool is_number_after(std::string_view first, std::string_view name, std::int64_t distance) {
  const auto a = as_number(first), b = as_number(name);
  return a && b && *b - *a == distance;
}

}  // namespace tapehead::graph
