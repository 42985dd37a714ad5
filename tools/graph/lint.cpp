#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/value_bytes.h>
#include <tapehead/graph/internal/view_operations.h>
#include <tapehead/graph/lint.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>

namespace tapehead::graph {
namespace {

// Whose gradient is a function of their output.
constexpr std::array<std::string_view, 9> output_suffices = {
    "exp", "tanh", "sigmoid", "relu", "sqrt", "rsqrt", "reciprocal", "softmax", "log_softmax"};

// Whether a storage that the operation made holds its input's elements in their order. Two views
// copy where the strides allow none.
bool copies_in_order(const Graph::Node& node) {
  return is_copy(node.operation) || node.operation == "reshape" || node.operation == "flatten";
}

// What the rules ask of a whole graph.
class Facts {
 public:
  explicit Facts(const Graph& all) : graph(all), keepers(all) {
    look_at_steps();
    look_at_values();
  }

  const Graph& graph;
  const Keepers keepers;

  const Graph::Node& node(const Graph::SavedSlot& slot) const { return node_of(graph, slot); }
  bool ran_backward(std::int64_t node) const { return !has_backward_ || ran_backward_[at(node)]; }
  /// Whether the value's gradient is of use.
  bool wants_gradient(std::int64_t value) const {
    const Graph::Value& row = graph.values[at(value)];
    return row.producer >= 0 ? wanted_[at(row.producer)] : row.leaf && !is_frozen(row);
  }
  bool only_softmax_reads(std::int64_t value) const { return readers_[at(value)] == softmax; }
  /// The node that first put something in the storage, if one did.
  std::optional<std::int64_t> maker(std::int64_t storage) const { return makers_[at(storage)]; }

 private:
  enum Readers : char { none, softmax, others };

  void look_at_steps() {
    ran_backward_.resize(graph.nodes.size());
    wanted_.resize(graph.nodes.size());
    for (const Graph::Step& step : graph.steps) {
      if (step.phase == Graph::Phase::update) updated_.insert(step.module);
      if (step.phase != Graph::Phase::backward || step.node < 0) continue;
      has_backward_ = true;
      ran_backward_[at(step.node)] = true;
    }
  }

  void look_at_values() {
    readers_.resize(graph.values.size(), none);
    makers_.resize(graph.storages.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Graph::Node& node = graph.nodes[i];
      const std::int64_t made = graph.values[at(node.output)].storage;
      bool wants = false, in_place = false;
      for (const std::int64_t input : node.inputs) {
        Readers& readers = readers_[at(input)];
        readers = node.operation == "softmax" && readers != others ? softmax : others;
        wants = wants || wants_gradient(input);
        in_place = in_place || graph.values[at(input)].storage == made;
      }
      wanted_[i] = wants;
      if (!in_place && !makers_[at(made)]) makers_[at(made)] = static_cast<std::int64_t>(i);
    }
  }

  bool is_frozen(const Graph::Value& leaf) const {
    return !updated_.empty() && !leaf.name.empty() && !updated_.contains(leaf.name);
  }

  bool has_backward_ = false;
  std::vector<bool> ran_backward_, wanted_;
  std::unordered_set<std::string_view> updated_;  // names of parameters
  std::vector<Readers> readers_;
  std::vector<std::optional<std::int64_t>> makers_;
};

// ---- rules about a slot ------------------------------------------------------------------------

bool is_unread(const Facts& facts, const Graph::SavedSlot& slot) {
  return slot.for_inputs.empty() || !facts.ran_backward(slot.node);
}

bool is_input_kept(const Facts& facts, const Graph::SavedSlot& slot) {
  const Graph::Node& node = facts.node(slot);
  if (std::ranges::find(output_suffices, node.operation) == output_suffices.end() ||
      node.inputs.empty())
    return false;
  const std::int64_t output = facts.graph.values[at(node.output)].storage;
  return slot.value == node.inputs[0] && value_of(facts.graph, slot).storage != output &&
         !facts.keepers.of_storage(output).empty();
}

bool is_for_frozen(const Facts& facts, const Graph::SavedSlot& slot) {
  const Graph::Node& node = facts.node(slot);
  return node.inputs.size() > 1 && !is_unread(facts, slot) &&
         std::none_of(slot.for_inputs.begin(), slot.for_inputs.end(), [&](std::int64_t input) {
           return facts.wants_gradient(node.inputs[at(input)]);
         });
}

bool is_mask_before_softmax(const Facts& facts, const Graph::SavedSlot& slot) {
  const Graph::Node& node = facts.node(slot);
  if (node.operation != "masked_fill" || slot.slot != "mask") return false;
  const auto is_infinite = [](const Graph::Attribute& attribute) {
    const double* value = std::get_if<double>(&attribute.value);
    return attribute.name == "value" && value && std::isinf(*value) && *value < 0;
  };
  return std::any_of(node.attributes.begin(), node.attributes.end(), is_infinite) &&
         facts.only_softmax_reads(node.output);
}

struct SlotRule {
  std::string_view name;
  bool (*fires)(const Facts&, const Graph::SavedSlot&);
  std::string_view mending;
};

constexpr std::array slot_rules = {
    SlotRule{"unread", is_unread,
             "Nothing reads it: detach() what needs no gradient, pause the tape there, or let the "
             "operation save for wanted gradients only."},
    SlotRule{"input_kept", is_input_kept,
             "Write the rule with the output, which is kept anyway, and save that in its place."},
    SlotRule{"frozen_partner", is_for_frozen,
             "The gradient that reads it is not needed: use the frozen partner as a constant, by "
             "detach(), so that nothing is kept for it."},
    SlotRule{"masked_fill", is_mask_before_softmax,
             "softmax's gradient is 0 under the mask without it: mask and normalise in one "
             "operation, as the fused attention path does."},
};

// One finding for each storage or packing all of whose keepers break the rule.
void apply(const Facts& facts, const SlotRule& rule, std::vector<Finding>& findings) {
  for (std::size_t i = 0; i < facts.graph.saved.size(); ++i) {
    const Graph::SavedSlot& slot = facts.graph.saved[i];
    const Keepers::Slots& keepers = facts.keepers.of(slot);
    const bool is_first = !keepers.empty() && keepers.front() == static_cast<std::int64_t>(i);
    if (!is_first || exists_anyway(facts.graph, slot) || facts.keepers.retained(slot) == 0)
      continue;
    if (std::all_of(keepers.begin(), keepers.end(), [&](std::int64_t keeper) {
          return rule.fires(facts, facts.graph.saved[at(keeper)]);
        }))
      findings.push_back({.rule = rule.name,
                          .mending = rule.mending,
                          .slot = keepers.front(),
                          .others = std::ssize(keepers) - 1,
                          .freed = facts.keepers.retained(slot)});
  }
}

// ---- rules about a storage ---------------------------------------------------------------------

std::int64_t freed_by_keeping_expanded(const Facts& facts, std::int64_t storage) {
  const std::optional<std::int64_t> maker = facts.maker(storage);
  if (!maker) return 0;
  const Graph::Node& node = facts.graph.nodes[at(*maker)];
  if (!copies_in_order(node) || node.inputs.size() != 1) return 0;
  const Graph::Value& source = facts.graph.values[at(node.inputs[0])];
  if (!is_expanded(source.shape, source.strides)) return 0;
  const Graph::Storage& base = facts.graph.storages[at(source.storage)];
  const bool base_lives =
      exists_anyway(base.category) || !facts.keepers.of_storage(source.storage).empty();
  return facts.graph.storages[at(storage)].bytes - (base_lives ? 0 : base.bytes);
}

std::int64_t freed_by_copying_views(const Facts& facts, std::int64_t storage) {
  using Window = std::tuple<Shape, Strides, std::int64_t>;
  const auto before = [](const Window& a, const Window& b) {
    const auto& [shape_a, strides_a, offset_a] = a;
    const auto& [shape_b, strides_b, offset_b] = b;
    if (offset_a != offset_b) return offset_a < offset_b;
    if (shape_a != shape_b)
      return std::lexicographical_compare(shape_a.begin(), shape_a.end(), shape_b.begin(),
                                          shape_b.end());
    return std::lexicographical_compare(strides_a.begin(), strides_a.end(), strides_b.begin(),
                                        strides_b.end());
  };
  std::set<Window, decltype(before)> windows(before);
  std::int64_t rest = facts.graph.storages[at(storage)].bytes;
  const std::int64_t half = rest / 2;
  for (const std::int64_t keeper : facts.keepers.of_storage(storage)) {
    const Graph::Value& value = value_of(facts.graph, facts.graph.saved[at(keeper)]);
    if (!windows.emplace(value.shape, value.strides, value.offset).second) continue;
    const std::int64_t needed = needed_bytes(value);
    if (needed > rest) return 0;
    rest -= needed;
  }
  return rest >= half ? rest : 0;
}

struct StorageRule {
  std::string_view name;
  std::int64_t (*freed)(const Facts&, std::int64_t);
  std::string_view mending;
};

constexpr std::array storage_rules = {
    StorageRule{"expanded_copy", freed_by_keeping_expanded,
                "Keep the expanded view, or let the operation broadcast, in place of the copy."},
    StorageRule{"small_view", freed_by_copying_views,
                "Save a copy of the view (contiguous()), so that the base can go."},
};

void apply(const Facts& facts, const StorageRule& rule, std::vector<Finding>& findings) {
  for (std::size_t id = 0; id < facts.graph.storages.size(); ++id) {
    const auto storage = static_cast<std::int64_t>(id);
    const Keepers::Slots& keepers = facts.keepers.of_storage(storage);
    if (keepers.empty() || exists_anyway(facts.graph, facts.graph.saved[at(keepers[0])])) continue;
    if (const std::int64_t freed = rule.freed(facts, storage); freed > 0)
      findings.push_back({.rule = rule.name,
                          .mending = rule.mending,
                          .slot = keepers.front(),
                          .others = std::ssize(keepers) - 1,
                          .freed = freed});
  }
}

}  // namespace

std::vector<Finding> lint(const Graph& graph) {
  const Facts facts(graph);
  std::vector<Finding> findings;
  for (const SlotRule& rule : slot_rules) apply(facts, rule, findings);
  for (const StorageRule& rule : storage_rules) apply(facts, rule, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.freed > b.freed; });
  return findings;
}

}  // namespace tapehead::graph
