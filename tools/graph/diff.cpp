#include <tapehead/core/count.h>
#include <tapehead/graph/diff.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/graph/internal/maker.h>
#include <tapehead/graph/internal/not_finite.h>
#include <tapehead/graph/text.h>
#include <tapehead/graph/timeline.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace tapehead::graph {
namespace {

using nlohmann::json;

// ---- what is compared --------------------------------------------------------------------------

// As the file has it: the types stay apart, numbers keep all their digits, and those that JSON has
// no word for are strings.
std::string to_text(const Graph::Attribute& attribute) {
  if (const double* number = std::get_if<double>(&attribute.value);
      number && !std::isfinite(*number))
    return attribute.name + " \"" + std::string(name_of_not_finite(*number)) + "\"";
  const json value = std::visit([](const auto& held) { return json(held); }, attribute.value);
  return attribute.name + " " + json_line(value);
}

std::string describe_node(const Graph& graph, const Graph::Node& node) {
  std::string text;
  for (const std::int64_t input : node.inputs)
    text += (text.empty() ? "" : ", ") + describe(graph.values[at(input)]);
  text += " to " + describe(graph.values[at(node.output)]);
  for (const Graph::Attribute& attribute : node.attributes) text += ", " + to_text(attribute);
  if (node.flops > 0) text += ", " + format_count(node.flops) + " flops";
  return text + (node.planned ? ", planned" : "");
}

std::string describe_slot(const Graph& graph, const Graph::SavedSlot& slot) {
  std::string text = describe(value_of(graph, slot));
  if (slot.packing >= 0) text += " packed as " + graph.packings[at(slot.packing)].how;
  text += slot.for_inputs.size() == 1 ? ", for input" : ", for inputs";
  const char* separator = " ";
  for (const std::int64_t input : slot.for_inputs)
    text += std::exchange(separator, ", ") + std::to_string(input);
  return text + ": " + slot.reason;
}

Diff::Totals totals_of(const Graph& graph) {
  Diff::Totals totals;
  totals.activations = graph.saved_activation_bytes();
  totals.others = graph.saved_bytes() - totals.activations;
  if (!graph.events.empty()) totals.peak = timeline(graph).peak;
  for (const Graph::Node& node : graph.nodes)
    ++(node.recomputed ? totals.recomputed : totals.operations);
  totals.flops = count_sum(graph.forward_flops(), graph.recomputed_flops());
  return totals;
}

// ---- alignment ---------------------------------------------------------------------------------

struct Thing {
  std::string place, module, description;
  std::int64_t bytes = 0;
  std::optional<Kept> kept = {};        // of a slot, unless it is a recomputed operation's
  std::string like = {};                // of a slot: what a moved one has in common
  std::string name = {}, made_by = {};  // of a slot
};

// Module, operation, whether recomputed, which one of these; of a slot, its name and which one of
// that name in its node.
using Key = std::tuple<std::string_view, std::string_view, bool, std::int64_t, std::string_view,
                       std::int64_t>;

// The things of one graph, each under its key, and the keys in the graph's order.
struct Things {
  std::map<Key, Thing> by_key;
  std::vector<Key> order;

  void add(const Key& key, Thing thing) {
    by_key.emplace(key, std::move(thing));
    order.push_back(key);
  }
};

std::string marked(const std::string& label, bool recomputed) {
  return recomputed ? label + " (recomputed)" : label;
}

Key key_of(const Labels& labels, std::int64_t id) {
  const Graph::Node& node = labels.graph().nodes[at(id)];
  return {node.module, node.operation, node.recomputed, labels.occurrence(id), "", 0};
}

Things nodes_of(const Labels& labels) {
  const Graph& graph = labels.graph();
  Things things;
  for (std::int64_t id = 0; id < std::ssize(graph.nodes); ++id) {
    const Graph::Node& node = graph.nodes[at(id)];
    things.add(key_of(labels, id), {.place = marked(labels.node(id), node.recomputed),
                                    .module = node.module,
                                    .description = describe_node(graph, node)});
  }
  return things;
}

Things slots_of(const Labels& labels) {
  const Graph& graph = labels.graph();
  Things things;
  const Keepers keepers(graph);
  std::map<std::pair<std::int64_t, std::string_view>, std::int64_t> counts;
  for (std::int64_t index = 0; index < std::ssize(graph.saved); ++index) {
    const Graph::SavedSlot& slot = graph.saved[at(index)];
    const Graph::Node& node = node_of(graph, slot);
    Key key = key_of(labels, slot.node);
    std::get<4>(key) = slot.slot;
    std::get<5>(key) = counts[{slot.node, slot.slot}]++;
    const std::string kept = describe(value_of(graph, slot));
    things.add(key, {.place = marked(labels.slot(index), node.recomputed),
                     .module = node.module,
                     .description = describe_slot(graph, slot),
                     .bytes = keepers.retained(slot),
                     .kept = node.recomputed ? std::nullopt : std::optional(kept_by(graph, slot)),
                     .like = node.operation + "." + slot.slot + " " + kept,
                     .name = name_label(graph, slot.value),
                     .made_by = maker_label(labels, slot.value)});
  }
  return things;
}

const Thing* found(const Things& things, const Key& key) {
  const auto entry = things.by_key.find(key);
  return entry == things.by_key.end() ? nullptr : &entry->second;
}

// ---- comparison --------------------------------------------------------------------------------

// Slots that are gone, for those that are new to be looked up among: the first of each kind first.
class Gone {
 public:
  using Like = std::pair<std::string_view, std::int64_t>;

  void add(const Thing& thing, std::size_t entry) {
    if (!thing.like.empty()) entries_.emplace(Like(thing.like, thing.bytes), entry);
  }
  std::optional<std::size_t> take(const Thing& thing) {
    const auto entry = entries_.lower_bound(Like(thing.like, thing.bytes));
    if (thing.like.empty() || entry == entries_.end() ||
        entry->first != Like(thing.like, thing.bytes))
      return {};
    const std::size_t index = entry->second;
    entries_.erase(entry);
    return index;
  }

 private:
  std::multimap<Like, std::size_t> entries_;
};

bool are_equal(const Thing& a, const Thing& b) {
  return a.description == b.description && a.bytes == b.bytes;
}

// Which of one graph's storages and packed forms that slots keep are counted already.
class Counted {
 public:
  std::int64_t add(const Thing* thing) {
    return thing && thing->kept && counted_.insert(*thing->kept).second ? thing->bytes : 0;
  }

 private:
  std::set<Kept> counted_;
};

// An entry's things in both graphs, null where it has none.
using Sides = std::pair<const Thing*, const Thing*>;

void count_once(const Things& a, const Things& b, const std::vector<Sides>& sides,
                std::vector<Diff::Entry>& entries) {
  Counted before, after;
  const auto count = [&](bool moved) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if ((entries[i].kind == Diff::Kind::moved) != moved) continue;
      entries[i].counted_before = before.add(sides[i].first);
      entries[i].counted_after = after.add(sides[i].second);
    }
  };
  count(true);
  for (const Key& key : a.order) {
    const Thing &was = a.by_key.at(key), *is = found(b, key);
    if (!is || !are_equal(was, *is)) continue;
    before.add(&was);
    after.add(is);
  }
  count(false);
}

std::vector<Diff::Entry> compare(const Things& a, const Things& b) {
  std::vector<Diff::Entry> entries;
  std::vector<Sides> sides;
  Gone gone;
  for (const Key& key : a.order) {
    const Thing &was = a.by_key.at(key), *is = found(b, key);
    if (!is) gone.add(was, entries.size());
    else if (are_equal(was, *is)) continue;
    sides.emplace_back(&was, is);
    entries.push_back({.kind = is ? Diff::Kind::changed : Diff::Kind::removed,
                       .place = was.place,
                       .module = was.module,
                       .name = was.name,
                       .made_by = was.made_by,
                       .before = was.description,
                       .after = is ? is->description : "",
                       .bytes_before = was.bytes,
                       .bytes_after = is ? is->bytes : 0});
  }
  for (const Key& key : b.order) {
    if (found(a, key)) continue;
    const Thing& is = b.by_key.at(key);
    if (const std::optional<std::size_t> from = gone.take(is)) {
      Diff::Entry& moved = entries[*from];
      moved.kind = Diff::Kind::moved;
      moved.to = is.place;
      moved.after = is.description;
      moved.bytes_after = is.bytes;
      sides[*from].second = &is;
    } else {
      sides.emplace_back(nullptr, &is);
      entries.push_back({.kind = Diff::Kind::added,
                         .place = is.place,
                         .module = is.module,
                         .name = is.name,
                         .made_by = is.made_by,
                         .after = is.description,
                         .bytes_after = is.bytes});
    }
  }
  count_once(a, b, sides, entries);
  return entries;
}

}  // namespace

std::int64_t Diff::moved_bytes() const {
  std::int64_t bytes = 0;
  for (const Entry& slot : slots)
    if (slot.kind == Kind::moved) bytes = count_sum(bytes, slot.counted_after);
  return bytes;
}

Diff diff(const Graph& a, const Graph& b) {
  const Labels labels_a(a), labels_b(b);
  return {.before = totals_of(a),
          .after = totals_of(b),
          .nodes = compare(nodes_of(labels_a), nodes_of(labels_b)),
          .slots = compare(slots_of(labels_a), slots_of(labels_b))};
}

}  // namespace tapehead::graph
