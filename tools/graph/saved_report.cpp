#include <tapehead/core/count.h>
#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/filter.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/internal/maker.h>
#include <tapehead/graph/internal/value_bytes.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace tapehead::graph {
namespace {

using nlohmann::json;

// More would make the report quadratic where thousands of slots keep one storage.
constexpr std::size_t max_listed = 8;

bool has_two_equal_dims(const Shape& shape) {
  for (const std::int64_t* dim = shape.begin(); dim != shape.end(); ++dim)
    if (*dim > 1 && std::find(dim + 1, shape.end(), *dim) != shape.end()) return true;
  return false;
}

// What else is known of storages: whose results lie in them, and when they die.
struct Storages {
  explicit Storages(const Graph& graph)
      : nodes(graph.storages.size()), death(graph.storages.size(), -1) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Graph::Value& output = graph.values[at(graph.nodes[n].output)];
      nodes[at(output.storage)].push_back(static_cast<std::int64_t>(n));
    }
    for (const Graph::Event& event : graph.events)
      if (!event.birth) death[at(event.storage)] = event.step;
  }

  std::vector<std::vector<std::int64_t>> nodes;
  std::vector<std::int64_t> death;
};

void add_storage(const Graph& graph, const Storages& storages, SavedRow& row) {
  const Graph::SavedSlot& slot = graph.saved[at(row.index)];
  if (slot.packing >= 0) return;  // the storage itself is not kept
  const Graph::Value& value = value_of(graph, slot);
  row.death = storages.death[at(value.storage)];
  for (const std::int64_t node : storages.nodes[at(value.storage)]) {
    if (node == value.producer) continue;
    ++row.viewers;
    if (row.viewed_by.size() < max_listed) row.viewed_by.push_back(node);
  }
}

SavedRow make_row(const Graph& graph, const Keepers& keepers, std::int64_t index) {
  const Graph::SavedSlot& slot = graph.saved[at(index)];
  const Keepers::Slots& all = keepers.of(slot);
  SavedRow row{.index = index,
               .needed = needed_bytes(value_of(graph, slot)),
               .retained = keepers.retained(slot),
               .sharers = std::ssize(all) - 1};
  if (row.sharers == 0 && !exists_anyway(graph, slot)) row.freed = row.retained;
  for (std::size_t k = 0; k < all.size() && row.shared_with.size() < max_listed; ++k)
    if (all[k] != index) row.shared_with.push_back(all[k]);
  return row;
}

bool is_chosen(const Graph& graph, const SavedRow& row, const SavedSelection& by) {
  const Graph::Value& value = value_of(graph, graph.saved[at(row.index)]);
  return (!by.shared || row.sharers > 0) && (!by.two_equal_dims || has_two_equal_dims(value.shape));
}

void sort_rows(const Graph& graph, std::vector<SavedRow>& rows, SavedOrder order) {
  std::stable_sort(rows.begin(), rows.end(), [&](const SavedRow& a, const SavedRow& b) {
    if (order == SavedOrder::bytes) return a.retained > b.retained;
    const Graph::Node& x = node_of(graph, graph.saved[at(a.index)]);
    const Graph::Node& y = node_of(graph, graph.saved[at(b.index)]);
    if (order == SavedOrder::operation)
      return std::tie(x.operation, x.module) < std::tie(y.operation, y.module);
    return std::tie(x.module, x.operation) < std::tie(y.module, y.operation);
  });
}

std::vector<std::string> labels_of_sharers(const Labels& labels, const SavedRow& row) {
  std::vector<std::string> all;
  for (const std::int64_t other : row.shared_with) all.push_back(labels.slot(other));
  return all;
}

std::vector<std::string> labels_of_viewers(const Labels& labels, const SavedRow& row) {
  std::vector<std::string> all;
  for (const std::int64_t node : row.viewed_by) all.push_back(labels.node(node));
  return all;
}

std::string listed(const std::vector<std::string>& labels, std::int64_t count) {
  std::string list;
  for (const std::string& label : labels) list += (list.empty() ? "" : ", ") + label;
  const std::int64_t more = count - std::ssize(labels);
  return list + (more > 0 ? " and " + format_count(more) + " more" : "");
}

std::string row_text(const Labels& labels, const SavedRow& row) {
  const Graph& graph = labels.graph();
  const Graph::SavedSlot& slot = graph.saved[at(row.index)];
  const Graph::Value& value = value_of(graph, slot);
  std::string text = left(44, fit_label(labels.slot(row.index), 44)) + " " +
                     left(24, fit_label(describe(value), 24)) +
                     right(31, format_bytes(row.retained)) + "\n";
  if (const std::string name = name_label(graph, slot.value); !name.empty())
    text += wrapped("value: " + name, 4);
  if (const std::string maker = maker_label(labels, slot.value); !maker.empty())
    text += wrapped("made by: " + maker, 4);
  if (slot.packing >= 0) text += wrapped("packed as " + graph.packings[at(slot.packing)].how, 4);
  text += wrapped("needed: " + format_bytes(row.needed) +
                      "; freed if this slot alone were dropped: " + format_bytes(row.freed),
                  4);
  if (row.sharers > 0)
    text += wrapped("shared with: " + listed(labels_of_sharers(labels, row), row.sharers), 4);
  if (row.viewers > 0)
    text += wrapped(
        "in the same storage: results of " + listed(labels_of_viewers(labels, row), row.viewers),
        4);
  if (row.death >= 0) text += wrapped("dies in: " + place_of_step(graph, row.death), 4);
  return text + wrapped("reason: " + slot.reason, 4);
}

json row_json(const Labels& labels, const SavedRow& row) {
  const Graph& graph = labels.graph();
  const Graph::SavedSlot& slot = graph.saved[at(row.index)];
  const Graph::Value& value = value_of(graph, slot);
  const Graph::Node& node = node_of(graph, slot);
  json all = {{"operation", node.operation},
              {"module", node.module},
              {"slot", slot.slot},
              {"label", labels.slot(row.index)},
              {"name", name_label(graph, slot.value)},
              {"made_by", maker_label(labels, slot.value)},
              {"shape", std::vector<std::int64_t>(value.shape.begin(), value.shape.end())},
              {"dtype", to_string(value.dtype)},
              {"category", to_string(graph.storages[at(value.storage)].category)},
              {"storage", value.storage},
              {"needed", row.needed},
              {"retained", row.retained},
              {"freed", row.freed},
              {"sharers", row.sharers},
              {"shared_with", labels_of_sharers(labels, row)},
              {"viewers", row.viewers},
              {"viewed_by", labels_of_viewers(labels, row)},
              {"death", row.death},
              {"reason", slot.reason}};
  if (slot.packing >= 0) all["packed"] = graph.packings[at(slot.packing)].how;
  return all;
}

// Of all that the rows keep: storages and packed forms, each once.
std::int64_t listed_bytes(const Graph& graph, const std::vector<SavedRow>& rows) {
  std::set<Kept> counted;
  std::int64_t sum = 0;
  for (const SavedRow& row : rows)
    if (counted.insert(kept_by(graph, graph.saved[at(row.index)])).second)
      sum = count_sum(sum, row.retained);
  return sum;
}

}  // namespace

std::vector<SavedRow> saved_rows(const Graph& graph, const SavedSelection& selection) {
  const Filter filter(
      graph,
      {.name = selection.name, .operation = selection.operation, .module = selection.module});
  if (const std::string why = filter.unmatched(); !why.empty()) throw ValueError("saved", why);
  const Keepers keepers(graph);
  const Storages storages(graph);
  std::vector<SavedRow> rows;
  for (std::size_t i = 0; i < graph.saved.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (!filter.takes_slot(index)) continue;
    SavedRow row = make_row(graph, keepers, index);
    add_storage(graph, storages, row);
    if (is_chosen(graph, row, selection)) rows.push_back(std::move(row));
  }
  sort_rows(graph, rows, selection.order);
  return rows;
}

std::string saved_text(const Graph& graph, const std::vector<SavedRow>& rows) {
  if (rows.empty()) return "nothing saved matches\n";
  std::string text = left(45, "saved by") + left(24, "what") + right(31, "retained") + "\n" +
                     std::string(page_columns, '-') + "\n";
  const Labels labels(graph);
  for (const SavedRow& row : rows) text += row_text(labels, row);
  return text + std::string(page_columns, '-') + "\n" + format_count(std::ssize(rows)) +
         " slots, which keep " + format_bytes(listed_bytes(graph, rows)) +
         ";\nthe whole graph saves " + format_bytes(graph.saved_bytes()) +
         ",\nof which activations: " + format_bytes(graph.saved_activation_bytes()) + "\n" +
         wrapped(
             "retained: bytes of the storage that the slot keeps alive; needed: those of the "
             "distinct elements that its value shows, fewer where it is a view of a part",
             0);
}

std::string saved_json(const Graph& graph, const std::vector<SavedRow>& rows) {
  json all = {{"rows", json::array()},
              {"listed_bytes", listed_bytes(graph, rows)},
              {"saved_bytes", graph.saved_bytes()},
              {"saved_activation_bytes", graph.saved_activation_bytes()}};
  const Labels labels(graph);
  for (const SavedRow& row : rows) all["rows"].push_back(row_json(labels, row));
  return json_report(all);
}

}  // namespace tapehead::graph
