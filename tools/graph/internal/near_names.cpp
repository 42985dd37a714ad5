#include <tapehead/graph/internal/near_names.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

namespace tapehead::graph {
namespace {

constexpr std::size_t most_listed = 3, label_columns = 48;
// Of longer ones the rest does not count: the work is their product.
constexpr std::size_t longest = 128;

// The fewest characters to change, add or leave out so that `wanted` stands in `name` (Sellers'
// algorithm: Levenshtein's, but what stands before and behind costs nothing).
std::size_t distance(std::string_view wanted, std::string_view name) {
  std::vector<std::size_t> column(wanted.size() + 1);
  std::iota(column.begin(), column.end(), std::size_t{0});
  std::size_t least = column.back();
  for (const char c : name) {
    std::size_t diagonal = column[0];
    for (std::size_t i = 1; i < column.size(); ++i) {
      const std::size_t changed = diagonal + (wanted[i - 1] == c || wanted[i - 1] == '?' ? 0 : 1);
      diagonal = column[i];
      column[i] = std::min({changed, column[i] + 1, column[i - 1] + 1});
    }
    least = std::min(least, column.back());
  }
  return least;
}

}  // namespace

std::string near_names(std::string_view pattern, const std::set<std::string_view>& names) {
  std::string wanted(pattern.substr(0, longest));
  std::erase(wanted, '*');
  std::vector<std::tuple<std::size_t, std::size_t, std::string_view>> nearest;
  for (const std::string_view name : names)
    if (!name.empty())
      nearest.emplace_back(distance(wanted, name.substr(0, longest)), name.size(), name);
  if (nearest.empty()) return "; there are none";
  const std::size_t count = std::min(most_listed, nearest.size());
  std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(count),
                    nearest.end());
  std::string text = count == 1 ? "; the nearest name is " : "; the nearest names are ";
  for (std::size_t i = 0; i < count; ++i)
    text += (i == 0          ? ""
             : i + 1 < count ? ", "
                             : " and ") +
            fit_label(std::get<std::string_view>(nearest[i]), label_columns);
  return text;
}

}  // namespace tapehead::graph
