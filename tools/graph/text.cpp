#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/module_tree.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tapehead::graph {
namespace {

constexpr std::size_t name_columns = 29;

// Length in bytes of the UTF-8 sequence that starts `text`, 0 when it is not one. Enough to count
// columns and never cut a character; whether the code point exists is the reader's business.
std::size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

// A mark that turns the direction of the text behind it, and how it is shown.
struct Turning {
  std::string_view mark, code;
};
constexpr std::array turnings = {
    Turning{"\u061c", "\\u061c"}, Turning{"\u200e", "\\u200e"}, Turning{"\u200f", "\\u200f"},
    Turning{"\u202a", "\\u202a"}, Turning{"\u202b", "\\u202b"}, Turning{"\u202c", "\\u202c"},
    Turning{"\u202d", "\\u202d"}, Turning{"\u202e", "\\u202e"}, Turning{"\u2066", "\\u2066"},
    Turning{"\u2067", "\\u2067"}, Turning{"\u2068", "\\u2068"}, Turning{"\u2069", "\\u2069"}};

// Of ASCII, and those from U+0080 to U+009F, which some terminals obey as well.
bool is_control(std::string_view point) {
  const auto lead = static_cast<unsigned char>(point[0]);
  return lead < ' ' || lead == 0x7f ||
         (lead == 0xc2 && static_cast<unsigned char>(point[1]) < 0xa0);
}

// The characters that a terminal is given for the text.
std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> points;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view point = text.substr(0, length);
    const auto turning = std::ranges::find(turnings, point, &Turning::mark);
    if (turning != turnings.end())
      for (std::size_t i = 0; i < turning->code.size(); ++i)
        points.push_back(turning->code.substr(i, 1));
    else points.push_back(length == 0 || is_control(point) ? std::string_view("?") : point);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return points;
}

std::string blanks(std::size_t columns, std::string_view text) {
  const std::size_t length = code_points(text).size();
  return std::string(columns > length ? columns - length : 0, ' ');
}

std::string table_row(const std::string& name, const std::string& operations,
                      const std::string& activations, const std::string& share,
                      const std::string& others) {
  return left(name_columns, name) + right(7, operations) + right(29, activations) +
         right(8, share) + right(27, others) + "\n";
}

class SavedTable {
 public:
  explicit SavedTable(const Graph& graph) : graph_(graph), tree_(folded(module_sums(graph))) {}

  std::string print() {
    text_ = table_row("module", "ops", "saved activations", "share", "saved parameters, inputs");
    text_ += std::string(page_columns, '-') + "\n";
    for (const ModuleRow& line : table_rows(tree_)) row(line.label, line.sums);
    text_ += std::string(page_columns, '-') + "\n";
    row("total", tree_);
    note_packings();
    note_planned();
    return std::move(text_);
  }

 private:
  // Those that the table counts: what recomputed operations keep is not in it.
  void note_packings() {
    std::set<std::int64_t> counted;
    for (const Graph::SavedSlot& slot : graph_.saved)
      if (slot.packing >= 0 && !node_of(graph_, slot).recomputed) counted.insert(slot.packing);
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> kinds;  // count and bytes
    for (const std::int64_t id : counted) {
      const Graph::Packing& packing = graph_.packings[at(id)];
      auto& [count, bytes] = kinds[packing.how];
      ++count;
      bytes += packing.bytes;
    }
    for (const auto& [how, sums] : kinds)
      text_ += "of these, packed as " + fit_label(how, name_columns) + ": " +
               format_count(sums.first) + " tensors, " + format_bytes(sums.second) + "\n";
  }

  void note_planned() {
    const auto planned = std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                       [](const Graph::Node& node) { return node.planned; });
    if (planned > 0)
      text_ += "planned, not proven: a real run refuses " + format_count(planned) +
               " of these operations, which compute in bf16 or f16\n";
  }

  void row(const std::string& name, const ModuleSums& sums) {
    text_ +=
        table_row(fit_label(name, name_columns), format_count(sums.operations),
                  format_bytes(sums.activations), format_share(sums.activations, tree_.activations),
                  format_bytes(sums.others));
  }

  const Graph& graph_;
  ModuleSums tree_;
  std::string text_;
};

}  // namespace

std::string fixed(double value, int digits) {
  return format_number(value, std::chars_format::fixed, digits);
}

std::string saved_table(const Graph& graph) { return SavedTable(graph).print(); }

std::string left(std::size_t columns, const std::string& text) {
  return text + blanks(columns, text);
}

std::string right(std::size_t columns, const std::string& text) {
  return " " + blanks(columns - 1, text) + text;
}

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string lines, line;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find(' ', begin), text.size());
    const std::string word = fit_label(text.substr(begin, end - begin), page_columns - indent);
    const bool fits =
        indent + code_points(line).size() + 1 + code_points(word).size() <= page_columns;
    if (!line.empty() && !fits) lines += std::string(indent, ' ') + std::exchange(line, "") + "\n";
    line += line.empty() ? word : " " + word;
  }
  return line.empty() ? lines : lines + std::string(indent, ' ') + line + "\n";
}

std::string format_share(std::int64_t part, std::int64_t total) {
  if (total == 0) return "-";
  return fixed(100.0 * static_cast<double>(part) / static_cast<double>(total), 1) + " %";
}

std::string format_count(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return format_count(bytes);
  double scaled = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; scaled >= 1023.995 && unit + 1 < units.size(); ++unit) scaled /= 1024;
  return format_count(bytes) + " (" + fixed(scaled, 2) + " " + units[unit] + ")";
}

std::string printable(std::string_view text) {
  std::string all;
  for (const std::string_view point : code_points(text)) all += point;
  return all;
}

std::string fit_label(std::string_view text, std::size_t columns) {
  const std::vector<std::string_view> points = code_points(text);
  std::string fitted;
  const bool whole = points.size() <= columns;
  const std::size_t head = whole ? points.size() : (columns - 3 + 1) / 2;
  const std::size_t tail = whole ? 0 : columns - 3 - head;
  for (std::size_t i = 0; i < head; ++i) fitted += points[i];
  if (!whole) fitted += "...";
  for (std::size_t i = points.size() - tail; i < points.size(); ++i) fitted += points[i];
  return fitted;
}

}  // namespace tapehead::graph
