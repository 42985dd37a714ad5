#include <tapehead/core/error.h>
#include <tapehead/graph/compaction.h>
#include <tapehead/graph/keepers.h>
#include <tapehead/graph/regions.h>
#include <tapehead/graph/script.h>
#include <tapehead/graph/validate.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <optional>
#include <set>

namespace tapehead::graph {
namespace {

using Part = Script::Part;
using Phase = Graph::Phase;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The operations of one composed attention, as nodes; -1 where it goes without.
struct Chain {
  std::int64_t scores = -1, bias = -1, mask = -1, softmax = -1, dropout = -1, product = -1;
  std::int64_t q = -1, k = -1, v = -1, bias_value = -1;  // values
  std::int64_t transpose = -1;                           // of k
  std::vector<std::int64_t> nodes() const {
    std::vector<std::int64_t> all;
    for (const std::int64_t n : {transpose, scores, bias, mask, softmax, dropout, product})
      if (n >= 0) all.push_back(n);
    return all;
  }
};

// Of a mask: whether the kernel does without it.
bool is_triangle(const Graph& graph, const Graph::SavedSlot& slot) {
  const Graph::Value& mask = graph.values[at(slot.value)];
  return mask.shape.rank() == 2 && graph.storages[at(mask.storage)].operation == "gt";
}

// Looks for chains whose tensors nobody else reads or keeps.
class Finder {
 public:
  Finder(const Graph& graph, const Keepers& keepers)
      : graph_(graph), keepers_(keepers), reader_(graph.values.size(), nobody) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const std::int64_t read : graph.nodes[n].inputs)
        reader_[at(read)] = reader_[at(read)] == nobody ? static_cast<std::int64_t>(n) : several;
  }

  std::optional<Chain> around(std::int64_t softmax) const {
    Chain chain;
    chain.softmax = softmax;
    std::int64_t below = maker(softmax, 0, softmax);
    if (is(below, "masked_fill", 1)) chain.mask = std::exchange(below, maker(below, 0, below));
    if (is(below, "add", 2)) {
      chain.bias_value = graph_.nodes[at(below)].inputs[1];
      chain.bias = std::exchange(below, maker(below, 0, below));
    }
    chain.scores = below;
    chain.product = reader(softmax);
    if (is(chain.product, "dropout", 1))
      chain.dropout = std::exchange(chain.product, reader(chain.product));
    if (!is(chain.scores, "matmul", 2) || !is(chain.product, "matmul", 2)) return {};
    chain.transpose = maker(chain.scores, 1, chain.scores);
    if (!is(chain.transpose, "transpose", 1)) return {};
    chain.q = graph_.nodes[at(chain.scores)].inputs[0];
    chain.k = graph_.nodes[at(chain.transpose)].inputs[0];
    chain.v = graph_.nodes[at(chain.product)].inputs[1];
    if (!is_private(chain)) return {};
    return chain;
  }

 private:
  static constexpr std::int64_t nobody = -1, several = -2;

  bool is(std::int64_t node, std::string_view operation, std::size_t inputs) const {
    return node >= 0 && graph_.nodes[at(node)].operation == operation &&
           graph_.nodes[at(node)].inputs.size() >= inputs;
  }
  // What made an input of the node, if `by` alone reads it.
  std::int64_t maker(std::int64_t node, std::size_t input, std::int64_t by) const {
    if (node < 0 || graph_.nodes[at(node)].inputs.size() <= input) return -1;
    const std::int64_t value = graph_.nodes[at(node)].inputs[input];
    const std::int64_t made_by = graph_.values[at(value)].producer;
    return reader_[at(value)] == by && made_by < node ? made_by : -1;
  }
  std::int64_t reader(std::int64_t node) const {
    const std::int64_t next = reader_[at(graph_.nodes[at(node)].output)];
    return next > node ? next : -1;
  }
  // No slot outside keeps the scores or the weights.
  bool is_private(const Chain& chain) const {
    const std::vector<std::int64_t> nodes = chain.nodes();
    for (const std::int64_t node : nodes) {
      if (node == chain.product || node == chain.transpose) continue;
      const std::int64_t storage = graph_.values[at(graph_.nodes[at(node)].output)].storage;
      for (const std::int64_t slot : keepers_.of_storage(storage))
        if (std::find(nodes.begin(), nodes.end(), graph_.saved[at(slot)].node) == nodes.end())
          return false;
    }
    return true;
  }

  const Graph& graph_;
  const Keepers& keepers_;
  std::vector<std::int64_t> reader_;  // of each value
};

class Fusion {
 public:
  /// `released`: masks that are gone when the forward pass is done.
  Fusion(const Graph& was, const Chain& chain, const std::set<std::int64_t>& released,
         Graph& result, Script& script)
      : was_(was),
        chain_(chain),
        released_(released),
        result_(result),
        script_(script),
        nodes_(chain.nodes()),
        node_(chain.product) {}

  void apply() {
    find_merge();
    edit_operation();
    edit_slots();
    if (!script_.has_events()) return;
    edit_forward();
    edit_backward();
  }

 private:
  std::int64_t storage(std::int64_t value) const { return was_.values[at(value)].storage; }

  // The copy that merges the heads: a reshape of the transposed result that had to copy.
  void find_merge() {
    y_ = storage(was_.nodes[at(chain_.product)].output);
    std::int64_t value = was_.nodes[at(chain_.product)].output;
    for (std::size_t n = at(chain_.product) + 1; n < was_.nodes.size(); ++n) {
      const Graph::Node& node = was_.nodes[n];
      if (node.inputs.empty() || node.inputs[0] != value) continue;
      if (storage(node.output) != y_) {
        if (node.operation != "reshape") return;
        merged_ = storage(node.output);
        for (Graph::Attribute& attribute : result_.nodes[n].attributes)
          if (attribute.name == "copied") attribute.value = false;
        return;
      }
      value = node.output;
    }
  }

  // ---- operation and slots ----

  // In the place of the last product.
  void edit_operation() {
    Graph::Node& node = result_.nodes[at(node_)];
    node.operation = "fused_attention";
    node.inputs = {chain_.q, chain_.k, chain_.v};
    if (chain_.bias >= 0) node.inputs.push_back(chain_.bias_value);
    node.flops += was_.nodes[at(chain_.scores)].flops;
    if (merged_ < 0) return;
    for (Graph::Value& value : result_.values)
      if (value.storage == y_) value.storage = merged_;
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
          !is_triangle(was_, slot))
        add_slot("hidden", slot.value);
  }

  void add_slot(const char* slot, std::int64_t value) {
    result_.saved.push_back({.node = node_,
                             .slot = slot,
                             .reason = "weights are made again",
                             .for_inputs = {0, 1, 2},
                             .value = value});
    kept_.insert(result_.values[at(value)].storage);
  }

  Shape scores_shape() const {
    return was_.values[at(was_.nodes[at(chain_.softmax)].output)].shape;
  }

  // A number for each row of the scores.
  void add_statistic(const char* slot) {
    Shape shape = scores_shape();
    if (shape.rank() > 0) shape.erase(shape.rank() - 1);
    const DType dtype = was_.values[at(chain_.q)].dtype;
    statistics_.push_back(
        script_.add_storage({.bytes = numel(shape) * static_cast<std::int64_t>(size_of(dtype)),
                             .category = Category::saved,
                             .operation = "fused_attention"}));
    result_.values.push_back({.name = "",
                              .dtype = dtype,
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
          if (event.birth && event.storage != y_) script_.remove(event.storage);
        if (n != node_) script_.remove_step(gone);
      }
    result_.steps[at(step)].operation = "fused_attention";
    for (const std::int64_t made : statistics_) script_.be_born(made, {step, Part::start});
    if (merged_ >= 0) {
      script_.remove(y_);
      script_.be_born_earlier(merged_, {step, Part::start});
    }
  }

  // The steps of the chain's rules become one: the last of them, so that what dies in any of them
  // dies there, and what is born and lives on is born there.
  void edit_backward() {
    std::vector<std::int64_t> steps;
    for (const std::int64_t n : nodes_)
      if (script_.backward_step(n) >= 0) steps.push_back(script_.backward_step(n));
    if (steps.empty()) return;
    std::sort(steps.begin(), steps.end());
    const std::int64_t one = steps.back();
    for (const std::int64_t step : steps) {
      for (const Graph::Event& event : script_.events(step)) {
        const std::int64_t death = script_.death_step(event.storage);
        if (event.birth && death >= 0 && death <= one) script_.remove(event.storage);
        if (!event.birth && !released_.contains(event.storage))
          script_.die(event.storage, {one, Part::end});
      }
      if (step != one) script_.remove_step(step);
    }
    result_.steps[at(one)] = {.phase = Phase::backward,
                              .operation = "fused_attention",
                              .module = was_.nodes[at(node_)].module,
                              .node = node_};
    for (const std::int64_t storage : kept_) {
      const bool is_new = std::ranges::find(statistics_, storage) != statistics_.end();
      const std::int64_t death = is_new ? one : script_.death_step(storage);
      if (death >= 0 && death <= one && was_.steps[at(death)].phase == Phase::backward)
        script_.die(storage, {one, Part::end});
    }
  }

  const Graph& was_;
  const Chain& chain_;
  const std::set<std::int64_t>& released_;
  Graph& result_;
  Script& script_;
  const std::vector<std::int64_t> nodes_;
  const std::int64_t node_;  // that becomes the fused one
  // Storages:
  std::int64_t y_ = -1, merged_ = -1;
  std::vector<std::int64_t> statistics_;
  std::set<std::int64_t> kept_;
};

// Masks that were made before, and that no slot keeps any more, go after their last reader.
std::set<std::int64_t> release_masks(const Graph& was, const Keepers& keepers,
                                     const std::vector<bool>& gone, Script& script) {
  std::set<std::int64_t> released;
  for (const Graph::SavedSlot& slot : was.saved) {
    if (!gone[at(slot.node)] || slot.slot != "mask" || !is_triangle(was, slot)) continue;
    const std::int64_t mask = was.values[at(slot.value)].storage;
    const auto& slots = keepers.of_storage(mask);
    const std::int64_t death = script.death_step(mask);
    const std::int64_t read = script.forward_step(slot.node);
    const bool is_free = std::all_of(slots.begin(), slots.end(), [&](std::int64_t keeper) {
      return gone[at(was.saved[at(keeper)].node)];
    });
    if (!is_free || read < 0 || death < 0 || was.steps[at(death)].phase != Phase::backward)
      continue;
    script.die(mask, {read, Part::end});
    released.insert(mask);
  }
  return released;
}

std::vector<Chain> find_chains(const Graph& graph, const Keepers& keepers,
                               const std::vector<Region>& regions) {
  const Finder finder(graph, keepers);
  std::vector<Chain> chains;
  for (const Region& region : regions)
    for (std::int64_t n = region.first; n <= region.last; ++n)
      if (graph.nodes[at(n)].operation == "softmax" && !graph.nodes[at(n)].inputs.empty())
        if (std::optional<Chain> chain = finder.around(n)) chains.push_back(std::move(*chain));
  return chains;
}

}  // namespace

Graph fused(const Graph& graph, std::string_view path) {
  const Keepers keepers(graph);
  const std::vector<Region> regions = find_regions("whatif", graph, path);
  const std::vector<Chain> chains = find_chains(graph, keepers, regions);
  if (chains.empty())
    throw ValueError("whatif", "no composed attention in \"" + std::string(path) + "\"");
  Graph result = graph;
  Script script(result);
  std::vector<bool> gone(graph.nodes.size(), false);
  for (const Chain& chain : chains)
    for (const std::int64_t node : chain.nodes()) gone[at(node)] = true;
  std::erase_if(result.saved, [&](const auto& slot) { return gone[at(slot.node)]; });
  const std::set<std::int64_t> masks = release_masks(graph, keepers, gone, script);
  for (const Chain& chain : chains) Fusion(graph, chain, masks, result, script).apply();
  if (script.has_events()) script.finish();
  for (const Chain& chain : chains) gone[at(chain.product)] = false;
  drop_nodes(result, gone, script.removed());
  validate(result, "whatif");
  return result;
}

}  // namespace tapehead::graph
