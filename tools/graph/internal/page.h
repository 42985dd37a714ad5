// Pages that carry their data.
#pragma once

#include <string>
#include <string_view>

namespace tapehead::graph {

/// `page` with `data` in the place of its "{{data}}".
inline std::string with_data(std::string_view page, std::string_view data) {
  constexpr std::string_view mark = "{{data}}";
  const std::size_t place = page.find(mark);
  std::string out(page.substr(0, place));
  return out.append(data).append(page.substr(place + mark.size()));
}

/// JSON as a script element can hold it: the same value, with nothing that ends the element.
std::string script_data(std::string_view json);

}  // namespace tapehead::graph
