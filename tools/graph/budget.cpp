#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>
#include <tapehead/graph/budget.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/filter.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/nn/io/atomic_file.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>

namespace tapehead::graph {
namespace {

constexpr std::size_t most_listed = 12;

const Graph::SavedSlot& slot_of(const Graph& graph, const SavedRow& row) {
  return graph.saved[at(row.index)];
}

// "encoder.attention softmax.y f32 (2, 3, 5, 5), 600 bytes: dx = y * (g - sum(g * y))"
std::string slot_text(const Labels& labels, const SavedRow& row) {
  const Graph& graph = labels.graph();
  const Graph::SavedSlot& slot = graph.saved[at(row.index)];
  return printable(labels.slot(row.index)) + " " + describe(value_of(graph, slot_of(graph, row))) +
         ", " + format_count(row.retained) + " bytes" +
         (row.sharers > 0 ? ", shared by " + format_count(row.sharers + 1) + " slots" : "") + ": " +
         printable(slot.reason);
}

template <class Items, class Text>
std::string listed(const Items& items, Text text_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), most_listed); ++i)
    text += "\n  " + text_of(items[i]);
  if (items.size() > most_listed)
    text += "\n  and " + std::to_string(items.size() - most_listed) + " more";
  return text;
}
std::string listed(const std::vector<std::string>& lines) {
  return listed(lines, [](const std::string& line) { return line; });
}

// The slots for which `chosen` holds, those that keep the most first.
template <class Chosen>
std::vector<std::string> slots_where(const Graph& graph, Chosen chosen) {
  const Labels labels(graph);
  std::vector<std::string> lines;
  for (const SavedRow& row : saved_rows(graph))
    if (chosen(row)) lines.push_back(slot_text(labels, row));
  return lines;
}

// "saves 1,200 bytes, 200 more than the budget of 1,000"
std::string compared(const std::string& what, std::int64_t bytes, const Budget& budget) {
  const std::int64_t over = bytes - budget.bytes;
  const std::string difference = over > 0   ? format_count(over) + " more than"
                                 : over < 0 ? format_count(-over) + " less than"
                                            : "exactly";
  return what + " " + format_count(bytes) + " bytes, " + difference + " the budget of " +
         format_count(budget.bytes) + (budget.source.empty() ? "" : " = " + budget.source);
}

// " f32 (2, 5)" of a storage that the tape met: of the value that shows the most of it.
std::string shape_text(const Graph& graph, std::int64_t storage) {
  const Graph::Value* most = nullptr;
  for (const Graph::Value& value : graph.values)
    if (value.storage == storage && (!most || numel(value.shape) > numel(most->shape)))
      most = &value;
  return most ? " " + std::string(to_string(most->dtype)) + " " + to_string(most->shape) : "";
}

std::string live_text(const Graph& graph, std::int64_t storage, const std::string& reason) {
  const Graph::Storage& row = graph.storages[at(storage)];
  return std::string(to_string(row.category)) + shape_text(graph, storage) + ", " +
         format_count(row.bytes) + " bytes: " + reason;
}

std::int64_t checked(std::int64_t bytes) {
  if (bytes < 0) throw ValueError("Budget", std::to_string(bytes) + " bytes: negative");
  return bytes;
}

bool is_square_of(const Shape& shape, std::int64_t size) {
  return std::count(shape.begin(), shape.end(), size) >= 2;
}

std::string saved_line(const Graph& graph, const SavedRow& row) {
  const Graph::Node& node = node_of(graph, slot_of(graph, row));
  const Graph::Value& value = value_of(graph, slot_of(graph, row));
  return (node.module.empty() ? "-" : node.module) + " " + node.operation + " " +
         graph.saved[at(row.index)].slot + " " + to_string(value.shape) + " " +
         std::string(to_string(value.dtype)) + " " + std::to_string(row.retained);
}

std::vector<SavedRow> rows_in_order(const Graph& graph) {
  std::vector<SavedRow> rows = saved_rows(graph);
  std::sort(rows.begin(), rows.end(),
            [](const SavedRow& a, const SavedRow& b) { return a.index < b.index; });
  return rows;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const BudgetResult& result) {
  return out << result.message;
}

Budget::Budget(std::int64_t at_most) : bytes(checked(at_most)) {}

Budget::Budget(std::string_view formula, const Sizes& sizes)
    : bytes(checked(formula_value(formula, sizes))), source(formula) {
  for (const auto& [name, size] : sizes) source += ", " + name + " = " + std::to_string(size);
}

BudgetResult saves_at_most(const Graph& graph, const Budget& budget) {
  const std::int64_t bytes = graph.saved_activation_bytes();
  const std::string message = compared("saves", bytes, budget);
  if (bytes <= budget.bytes) return {true, message};
  return {false, message + listed(slots_where(graph, [&](const SavedRow& row) {
                   return !exists_anyway(graph, graph.saved[at(row.index)]);
                 }))};
}

BudgetResult saves_no_square(const Graph& graph, std::int64_t size) {
  if (size < 1)
    throw ValueError("saves_no_square", "size " + std::to_string(size) +
                                            ": must be at least 1; no dim has it, so that nothing "
                                            "could fail");
  const std::vector<std::string> found = slots_where(graph, [&](const SavedRow& row) {
    return !exists_anyway(graph, graph.saved[at(row.index)]) &&
           is_square_of(value_of(graph, slot_of(graph, row)).shape, size);
  });
  return {found.empty(), "saved tensors with two dims of size " + std::to_string(size) + ": " +
                             std::to_string(found.size()) + listed(found)};
}

BudgetResult saves_nothing(const Graph& graph, std::string_view operation,
                           std::string_view module) {
  const Filter filter(graph, {.operation = operation, .module = module});
  std::int64_t count = 0;
  for (std::int64_t id = 0; id < std::ssize(graph.nodes); ++id) count += filter.takes_node(id);
  const std::string where = module.empty() ? "" : " in " + std::string(module);
  if (count == 0) return {false, "no " + std::string(operation) + " was recorded" + where};
  const std::vector<std::string> found =
      slots_where(graph, [&](const SavedRow& row) { return filter.takes_slot(row.index); });
  return {found.empty(), "slots saved by " + std::string(operation) + where + " (recorded " +
                             std::to_string(count) + " x): " + std::to_string(found.size()) +
                             listed(found)};
}

std::vector<std::string> saved_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const SavedRow& row : rows_in_order(graph)) lines.push_back(saved_line(graph, row));
  return lines;
}

BudgetResult saves_exactly(const Graph& graph, const std::vector<std::string>& lines) {
  std::multiset<std::string> expected(lines.begin(), lines.end());
  std::vector<std::string> differences;
  for (const SavedRow& row : rows_in_order(graph)) {
    const std::string line = saved_line(graph, row);
    const auto found = expected.find(line);
    if (found != expected.end()) expected.erase(found);
    else differences.push_back("added: " + line + ": " + graph.saved[at(row.index)].reason);
  }
  const std::size_t added = differences.size();
  for (const std::string& line : expected) differences.push_back("missing: " + line);
  return {differences.empty(), "saved slots that are not in the list: " + std::to_string(added) +
                                   ", missing ones: " + std::to_string(expected.size()) +
                                   listed(differences)};
}

BudgetResult saves_as_in_file(const Graph& graph, const std::filesystem::path& path) {
  std::istringstream text(io::read_file("saves_as_in_file", path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return saves_exactly(graph, lines);
}

BudgetResult peaks_at_most(const Graph& graph, const Budget& budget) {
  const Timeline line = timeline(graph, "peaks_at_most");
  const std::string message = compared("peaks at", line.peak - line.unwatched, budget) +
                              (line.peak_step < 0 ? "; " : "; in ") +
                              place_of_step(graph, line.peak_step);
  if (line.peak - line.unwatched <= budget.bytes) return {true, message};
  const std::vector<std::string> why = reasons(graph);
  const auto text_of = [&](std::int64_t id) { return live_text(graph, id, why[at(id)]); };
  return {false, message + ", when these are live:" + listed(line.live_at_peak, text_of)};
}

}  // namespace tapehead::graph
