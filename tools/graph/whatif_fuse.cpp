#include <tapehead/core/count.h>
#include <tapehead/core/error.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/internal/attention_chain.h>
#include <tapehead/graph/internal/compaction.h>
#include <tapehead/graph/internal/donation.h>
#include <tapehead/graph/internal/keepers.h>
#include <tapehead/graph/internal/regions.h>
#include <tapehead/graph/internal/script.h>
#include <tapehead/graph/internal/value_bytes.h>
#include <tapehead/graph/validate.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace tapehead::graph {
namespace {

using Part = Script::Part;
using Phase = Graph::Phase;

class Fusion {
 public:
  /// `staying`: storages of masks, and of what makes them, that go on without the chain.
  Fusion(const Graph& was, const AttentionChain& chain, const std::set<std::int64_t>& staying,
         Graph& result, Script& script)
      : was_(was),
        chain_(chain),
        staying_(staying),
        result_(result),
        script_(script),
        nodes_(chain.nodes()),
        node_(chain.product),
        y_(storage(was.nodes[at(chain.product)].output)),
        merged_(chain.merge < 0 ? -1 : storage(was.nodes[at(chain.merge)].output)) {}

  void apply() {
    edit_operation();
    edit_slots();
    if (!script_.has_events()) return;
    edit_forward();
    edit_backward();
  }

 private:
  std::int64_t storage(std::int64_t value) const { return was_.values[at(value)].storage; }

  // ---- operation and slots ----

  // In the place of the last product.
  void edit_operation() {
    Graph::Node& node = result_.nodes[at(node_)];
    node.operation = "fused_attention";
    node.inputs = {chain_.q, chain_.k, chain_.v};
    if (chain_.bias >= 0) node.inputs.push_back(chain_.bias_value);
    node.flops = count_sum(node.flops, was_.nodes[at(chain_.scores)].flops);
    if (merged_ < 0) return;
    for (Graph::Attribute& attribute : result_.nodes[at(chain_.merge)].attributes)
      if (attribute.name == "copied") attribute.value = false;
  }

  void edit_slots() {
    add_slot("q", chain_.q);
    add_slot("k", chain_.k);
    add_slot("v", chain_.v);
    add_slot("y", was_.nodes[at(chain_.product)].output);
    for (const char* slot : {"row_max", "row_sum"}) add_statistic(slot);
    if (chain_.bias >= 0) add_slot("bias", chain_.bias_value);
    for (const Graph::SavedSlot& slot : was_.saved)
      if (slot.node == chain_.mask && slot.slot == "mask" && slot.packing < 0 &&
          !is_triangle(was_, slot)) {
        add_slot("hidden", slot.value);
        keeps_hidden_ = true;
      }
  }

  void add_slot(const char* slot, std::int64_t value) {
    result_.saved.push_back({.node = node_,
                             .slot = slot,
                             .reason = "weights are made again",
                             .for_inputs = {0, 1, 2},
                             .value = value});
    const std::int64_t kept = result_.values[at(value)].storage;
    kept_.insert(kept == y_ && merged_ >= 0 ? merged_ : kept);
  }

  // A number for each row of the scores.
  void add_statistic(const char* slot) {
    const Graph::Value& weights = was_.values[at(was_.nodes[at(chain_.softmax)].output)];
    Shape shape = weights.shape;
    if (shape.rank() > 0) shape.erase(shape.rank() - 1);
    statistics_.push_back(script_.add_storage({.bytes = bytes_of(shape, weights.dtype),
                                               .category = Category::saved,
                                               .operation = "fused_attention"}));
    result_.values.push_back({.name = "",
                              .dtype = weights.dtype,
                              .shape = shape,
                              .strides = contiguous_strides(shape),
                              .storage = statistics_.back(),
                              .producer = node_});
    add_slot(slot, std::ssize(result_.values) - 1);
  }

  // ---- births and deaths ----

  void edit_forward() {
    const std::int64_t step = script_.forward_step(node_);
    if (step < 0) return;
    for (const std::int64_t n : nodes_)
      if (const std::int64_t gone = script_.forward_step(n); gone >= 0) {
        for (const Graph::Event& event : script_.events(gone))
          if (event.birth && event.storage != y_ && !staying_.contains(event.storage) &&
              !makes_hidden(n, event.storage))
            script_.remove(event.storage);
        if (n != node_) script_.remove_step(gone);
      }
    result_.steps[at(step)].operation = "fused_attention";
    for (const std::int64_t made : statistics_) script_.be_born(made, {step, Part::start});
    if (merged_ >= 0) {
      script_.remove(y_);
      script_.move_birth(merged_, {step, Part::start});
    }
  }

  // Whether the storage was made on the way to a mask that is kept.
  bool makes_hidden(std::int64_t node, std::int64_t storage) const {
    return node == chain_.mask && keeps_hidden_ &&
           was_.storages[at(storage)].operation != was_.nodes[at(node)].operation;
  }

  // The steps of the chain's rules become one: the last of them, so that what dies in any of them
  // dies there, and what is born and lives on is born there.
  void edit_backward() {
    std::vector<std::int64_t> steps;
    for (const std::int64_t n : nodes_)
      if (script_.backward_step(n) >= 0) steps.push_back(script_.backward_step(n));
    if (steps.empty()) return hold_slots(script_.steps() - 1);
    std::sort(steps.begin(), steps.end());
    const std::int64_t one = steps.back();
    for (const std::int64_t step : steps) {
      for (const Graph::Event& event : script_.events(step)) {
        if (staying_.contains(event.storage)) continue;
        const std::int64_t death = script_.death_step(event.storage);
        if (event.birth && death >= 0 && death <= one) script_.remove(event.storage);
        if (!event.birth) script_.die(event.storage, {one, Part::end});
      }
      if (step != one) script_.remove_step(step);
    }
    add_score_gradient(one);
    result_.steps[at(one)] = {.phase = Phase::backward,
                              .operation = "fused_attention",
                              .module = was_.nodes[at(node_)].module,
                              .node = node_};
    hold_slots(one);
  }

  // What the slots keep lives to the end of this step, also if nothing kept it before, as a bias.
  void hold_slots(std::int64_t step) {
    for (const std::int64_t storage : kept_) {
      const bool is_new = std::ranges::find(statistics_, storage) != statistics_.end();
      const std::int64_t death = is_new ? step : script_.death_step(storage);
      if (death >= 0 && death <= step) script_.die(storage, {step, Part::end});
    }
  }

  // A bias that wants a gradient gets it by way of that of the scores, unless it has as many
  // elements.
  void add_score_gradient(std::int64_t step) {
    if (chain_.bias < 0) return;
    const Graph::Value& bias = was_.values[at(chain_.bias_value)];
    const Graph::Value& scores = was_.values[at(was_.nodes[at(chain_.bias)].output)];
    if ((bias.producer < 0 && !bias.leaf) || numel(bias.shape) == numel(scores.shape)) return;
    const std::int64_t gradient = script_.add_storage(
        {.bytes = bytes_of(scores.shape, scores.dtype), .operation = "fused_attention"});
    script_.be_born(gradient, {step, Part::start});
    script_.die(gradient, {step, Part::end});
  }

  const Graph& was_;
  const AttentionChain& chain_;
  const std::set<std::int64_t>& staying_;
  Graph& result_;
  Script& script_;
  const std::vector<std::int64_t> nodes_;
  const std::int64_t node_;               // that becomes the fused one
  const std::int64_t y_, merged_;         // storages: of the result, of its copy
  std::vector<std::int64_t> statistics_;  // storages
  bool keeps_hidden_ = false;
  std::set<std::int64_t> kept_;  // storages
};

// What the kernel's slots keep is not written over behind it.
std::vector<Hold> find_holds(const Graph& graph, const std::vector<AttentionChain>& chains) {
  std::vector<Hold> holds;
  for (const AttentionChain& chain : chains) {
    holds.push_back({chain.q, chain.scores});
    holds.push_back({chain.k, chain.scores});
    holds.push_back({chain.v, chain.product});
    if (chain.bias >= 0) holds.push_back({chain.bias_value, chain.bias});
    const std::int64_t last = std::max(chain.product, chain.merge);
    holds.push_back({graph.nodes[at(last)].output, last + 1});
  }
  return holds;
}

// By storage, the first node that stays and keeps or reads it, or -1.
std::vector<std::int64_t> find_users(const Graph& graph, const std::vector<bool>& gone) {
  std::vector<std::int64_t> first(graph.storages.size(), -1);
  const auto use = [&](std::int64_t value, std::int64_t node) {
    std::int64_t& user = first[at(graph.values[at(value)].storage)];
    if (!gone[at(node)] && (user < 0 || node < user)) user = node;
  };
  for (const Graph::SavedSlot& slot : graph.saved)
    if (slot.packing < 0) use(slot.value, slot.node);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const std::int64_t input : graph.nodes[n].inputs) use(input, static_cast<std::int64_t>(n));
  return first;
}

// What was made on the way to a triangle moves with its birth. The storages join `staying`.
void move_making(const Graph& was, std::int64_t mask, std::int64_t to, Script& script,
                 std::set<std::int64_t>& staying) {
  const std::int64_t birth = script.birth_step(mask);
  script.move_birth(mask, {to, Part::start});
  for (const Graph::Event& event : script.events(birth)) {
    const std::int64_t made = event.storage;
    const bool is_on_the_way = event.birth && script.death_step(made) == birth &&
                               was.storages[at(made)].operation != was.steps[at(birth)].operation;
    if (!is_on_the_way || !staying.insert(made).second) continue;
    script.move_birth(made, {to, Part::start});
    script.die(made, {to, Part::start});
  }
}

// Triangles that only the kernel would read are not made. Another lives for the operations that
// stay, and one that a checkpoint may read when it runs again stays as it is. Returned are the
// storages of such, and of what makes them.
std::set<std::int64_t> leave_out_triangles(const Graph& was, const std::vector<bool>& gone,
                                           Script& script) {
  const std::vector<std::int64_t> users = find_users(was, gone);
  const bool is_made_again = std::any_of(
      was.nodes.begin(), was.nodes.end(),
      [](const Graph::Node& node) { return node.recomputed && node.operation == "masked_fill"; });
  std::set<std::int64_t> staying;
  for (const Graph::SavedSlot& slot : was.saved) {
    if (!gone[at(slot.node)] || slot.slot != "mask" || !is_triangle(was, slot)) continue;
    const std::int64_t mask = value_of(was, slot).storage, user = users[at(mask)];
    if (script.birth_step(mask) < 0) continue;
    if (user < 0 && !is_made_again) script.remove(mask);
    if (script.removed()[at(mask)] || !staying.insert(mask).second || user < 0) continue;
    const std::int64_t start = script.forward_step(user), end = script.backward_step(user);
    if (end >= 0 && end < script.death_step(mask)) script.die(mask, {end, Part::end});
    if (start > script.birth_step(mask)) move_making(was, mask, start, script, staying);
  }
  return staying;
}

// The kernel writes its result as the merged heads lie in memory: both are one storage.
void show_merged(const Graph& was, const std::vector<AttentionChain>& chains, Graph& result) {
  std::unordered_map<std::int64_t, std::int64_t> merged;
  const auto storage = [&](std::int64_t node) {
    return was.values[at(was.nodes[at(node)].output)].storage;
  };
  for (const AttentionChain& chain : chains)
    if (chain.merge >= 0) merged.emplace(storage(chain.product), storage(chain.merge));
  for (Graph::Value& value : result.values)
    if (const auto found = merged.find(value.storage); found != merged.end())
      value.storage = found->second;
}

}  // namespace

Graph fused(const Graph& was, const std::vector<std::string>& paths) {
  const std::vector<AttentionChain> chains = chains_to_fuse(was, paths);
  const Graph graph = with_held(was, find_holds(was, chains));
  Graph result = graph;
  Script script(result);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (const AttentionChain& chain : chains)
    for (const std::int64_t node : chain.nodes()) gone[at(node)] = true;
  std::erase_if(result.saved, [&](const auto& slot) { return gone[at(slot.node)]; });
  const std::set<std::int64_t> masks = leave_out_triangles(graph, gone, script);
  for (const AttentionChain& chain : chains) Fusion(graph, chain, masks, result, script).apply();
  show_merged(graph, chains, result);
  if (script.has_events()) script.finish();
  for (const AttentionChain& chain : chains) gone[at(chain.product)] = false;
  drop_nodes(result, gone, script.removed());
  validate(result, "whatif");
  mark_donatable(result);
  return result;
}

}  // namespace tapehead::graph
