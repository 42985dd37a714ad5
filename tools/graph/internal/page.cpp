#include <tapehead/graph/internal/page.h>

#include <algorithm>
#include <array>

namespace tapehead::graph {
namespace {

// JSON has these characters in strings only, where each may be written as an escape. "<" could end
// the element or begin a comment; the others are inert there, and escaped for whoever copies them.
struct Escape {
  std::string_view text, code;
};
constexpr std::array escapes = {Escape{"<", "\\u003c"}, Escape{">", "\\u003e"},
                                Escape{"&", "\\u0026"}, Escape{"\u2028", "\\u2028"},
                                Escape{"\u2029", "\\u2029"}};

}  // namespace

std::string script_data(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const auto* found = std::find_if(escapes.begin(), escapes.end(), [&](const Escape& escape) {
      return json.starts_with(escape.text);
    });
    const bool stays = found == escapes.end();
    out += stays ? json.substr(0, 1) : found->code;
    json.remove_prefix(stays ? 1 : found->text.size());
  }
  return out;
}

}  // namespace tapehead::graph
