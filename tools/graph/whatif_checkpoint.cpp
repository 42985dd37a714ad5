#include <tapehead/core/error.h>
#include <tapehead/graph/keepers.h>
#include <tapehead/graph/regions.h>
#include <tapehead/graph/script.h>
#include <tapehead/graph/validate.h>
#include <tapehead/graph/whatif.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace tapehead::graph {
namespace {

using Place = Script::Place;
using Part = Script::Part;
using Phase = Graph::Phase;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Bytes of a row-major tensor of the value's shape: what its gradient takes.
std::int64_t gradient_bytes(const Graph::Value& value) {
  return numel(value.shape) * static_cast<std::int64_t>(size_of(value.dtype));
}

// Whether the gradient of the node's output is, as it is, the gradient of this input.
bool passes_gradient_on(const Graph& graph, const Graph::Node& node, std::size_t input) {
  static constexpr std::array<std::string_view, 9> views = {"reshape",   "flatten",    "squeeze",
                                                            "unsqueeze", "transpose",  "permute",
                                                            "clone",     "contiguous", "expand"};
  const Shape& from = graph.values[at(node.inputs[input])].shape;
  const Shape& to = graph.values[at(node.output)].shape;
  if (node.operation == "add" || node.operation == "expand") return from == to;
  if (node.operation == "sub") return input == 0 && from == to;
  return std::find(views.begin(), views.end(), node.operation) != views.end();
}

// What all regions ask of the graph as it was.
struct Original {
  explicit Original(const Graph& all)
      : graph(all), keepers(all), readers(all), slots_of_node(all.nodes.size()) {
    for (std::size_t i = 0; i < graph.saved.size(); ++i)
      slots_of_node[at(graph.saved[i].node)].push_back(static_cast<std::int64_t>(i));
  }

  std::int64_t storage(std::int64_t value) const { return graph.values[at(value)].storage; }

  const Graph& graph;
  const Keepers keepers;
  const Readers readers;
  std::vector<std::vector<std::int64_t>> slots_of_node;
};

// The edits for one region.
class Checkpoint {
 public:
  Checkpoint(const Original& original, const Region& region, Graph& result, Script& script)
      : was_(original), region_(region), result_(result), script_(script) {
    find_result();
    find_what_enters();
    find_kept();
  }

  void apply() {
    add_operation();
    if (!script_.has_events()) return;
    find_steps();
    if (f0_ < 0) return;
    find_born();
    enter_in_script();
    end_first_run();
    if (b0_ < 0) return;
    run_again();
    hold_gradients();
  }

 private:
  const Graph::Node& node(std::int64_t id) const { return was_.graph.nodes[at(id)]; }

  // ---- what the region is ----

  void find_result() {
    for (std::int64_t n = region_.first; n <= region_.last; ++n) {
      const std::int64_t value = node(n).output;
      if (was_.readers.last_of_value(value) <= region_.last && n < region_.last) continue;
      const bool is_last = was_.readers.last_of_value(value) <= region_.last;
      if (is_last && result_value_ >= 0) continue;
      if (result_value_ >= 0 && result_value_ != value)
        throw ValueError("whatif", region_.path + " has several results; a checkpoint has one");
      result_value_ = value;
    }
  }

  void find_what_enters() {
    std::set<std::int64_t> seen;
    for (std::int64_t n = region_.first; n <= region_.last; ++n)
      for (const std::int64_t input : node(n).inputs) {
        const Graph::Value& value = was_.graph.values[at(input)];
        if (region_.contains(value.producer) || !seen.insert(input).second) continue;
        (value.leaf ? parameters_ : inputs_).push_back(input);
      }
  }

  // Storages that slots of the region keep, with the first node that does.
  void find_kept() {
    for (std::int64_t n = region_.first; n <= region_.last; ++n)
      for (const std::int64_t slot : was_.slots_of_node[at(n)])
        if (was_.graph.saved[at(slot)].packing < 0)
          kept_.emplace(was_.storage(was_.graph.saved[at(slot)].value), n);
  }

  void find_steps() {
    for (std::int64_t n = region_.first; n <= region_.last; ++n) {
      const std::int64_t forward = script_.forward_step(n), backward = script_.backward_step(n);
      if (forward >= 0) {
        f0_ = f0_ < 0 ? forward : std::min(f0_, forward);
        f1_ = std::max(f1_, forward);
      }
      if (backward >= 0) {
        b0_ = b0_ < 0 ? backward : std::min(b0_, backward);
        b1_ = std::max(b1_, backward);
      }
    }
  }

  // The first step of the region also holds what happened since the operation before it: all that
  // comes before the first birth of this operation's own.
  bool is_before_region(std::int64_t step, const Graph::Event& event, bool& begun) const {
    if (step > f0_ || begun) return false;
    begun = event.birth && was_.graph.storages[at(event.storage)].operation ==
                               was_.graph.steps[at(step)].operation;
    return !begun;
  }

  void find_born() {
    for (std::int64_t step = f0_; step <= f1_; ++step) {
      bool begun = false;
      for (const Graph::Event& event : script_.events(step))
        if (!is_before_region(step, event, begun) && event.birth) born_.insert(event.storage);
    }
    std::erase_if(inputs_, [&](std::int64_t value) {
      return was_.graph.values[at(value)].producer < 0 && born_.contains(was_.storage(value));
    });
    for (const std::int64_t value : inputs_) entering_.insert(was_.storage(value));
    for (const std::int64_t value : parameters_) entering_.insert(was_.storage(value));
  }

  bool is_in_backward(std::int64_t step) const { return b0_ >= 0 && b0_ <= step && step <= b1_; }

  // ---- operations and slots ----

  void add_operation() {
    checkpoint_ = std::ssize(result_.nodes);
    result_.nodes.push_back({.operation = "checkpoint",
                             .module = region_.path,
                             .attributes = {{"operations", region_.last - region_.first + 1}},
                             .inputs = {},
                             .output = result_value_});
  }

  void enter_in_script() {
    const Script::Tick tick{
        .step = {.operation = "checkpoint", .module = region_.path, .node = checkpoint_}};
    script_.insert_after(f1_, tick);
  }

 public:
  // Last, when it is known what enters: constants made inside do not.
  void add_slots() {
    std::vector<std::int64_t>& read = result_.nodes[at(checkpoint_)].inputs;
    for (const auto& [values, slot] : {std::pair(&inputs_, "input"), {&parameters_, "parameter"}})
      for (const std::int64_t value : *values) {
        read.push_back(value);
        result_.saved.push_back({.node = checkpoint_,
                                 .slot = slot,
                                 .reason = "the function runs again",
                                 .for_inputs = {},
                                 .value = value});
      }
    std::vector<std::int64_t> all(read.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = result_.saved.size() - read.size(); i < result_.saved.size(); ++i)
      result_.saved[i].for_inputs = all;
  }

 private:
  // ---- the first run: nothing is kept but what enters ----

  void end_first_run() {
    for (const auto& [storage, first] : kept_) {
      if (!is_in_backward(script_.death_step(storage)) || entering_.contains(storage)) continue;
      if (!born_.contains(storage)) script_.die(storage, {script_.steps() - 1, Part::end});
      else if (const std::int64_t outside = first_keeper_after(storage); outside >= 0)
        script_.die(storage, {outside, Part::end});
      else if (storage == was_.storage(result_value_))
        script_.die(storage, {last_read(storage), Part::end});
      else script_.die(storage, {f1_, Part::after});
    }
    for (const std::int64_t storage : entering_)
      if (is_in_backward(script_.death_step(storage))) script_.die(storage, {b1_, Part::after});
  }

  // The backward step of the first operation after the region that keeps the storage, or -1.
  std::int64_t first_keeper_after(std::int64_t storage) const {
    for (const std::int64_t slot : was_.keepers.of_storage(storage)) {
      const std::int64_t keeper = was_.graph.saved[at(slot)].node;
      if (keeper > region_.last && script_.backward_step(keeper) >= 0)
        return script_.backward_step(keeper);
    }
    return -1;
  }

  std::int64_t last_read(std::int64_t storage) const {
    const std::int64_t reader = was_.readers.last_of_storage(storage);
    return std::max(f1_, reader < 0 ? f1_ : script_.forward_step(reader));
  }

  // ---- the second run, and the backward pass inside ----

  void run_again() {
    std::map<std::int64_t, std::int64_t> copies;
    for (std::int64_t step = f0_; step <= f1_; ++step) {
      Script::Tick tick{.step = again(was_.graph.steps[at(step)])};
      bool begun = false;
      for (const Graph::Event& event : script_.events(step)) {
        if (is_before_region(step, event, begun) || !born_.contains(event.storage)) continue;
        if (event.birth) copies[event.storage] = script_.copy(event.storage);
        tick.events.push_back({.storage = copies[event.storage], .birth = event.birth});
        if (!event.birth) copies.erase(event.storage);
      }
      script_.insert_before(b0_, std::move(tick));
    }
    for (const auto& [storage, copy] : copies) script_.die(copy, end_of_copy(storage));
    for (std::int64_t step = b0_; step <= b1_; ++step) {
      Graph::Step& inside = result_.steps[at(step)];
      if (region_.contains(inside.node)) inside.node = clone(inside.node);
    }
    script_.insert_after(b1_, {.step = {.phase = Phase::backward,
                                        .operation = "checkpoint",
                                        .module = region_.path,
                                        .node = checkpoint_}});
  }

  Place end_of_copy(std::int64_t storage) const {
    if (storage == was_.storage(result_value_)) return {b1_, Part::after};
    const auto kept = kept_.find(storage);
    if (kept == kept_.end()) return {b0_, Part::start};
    for (std::int64_t n = kept->second; n <= region_.last; ++n)
      if (script_.backward_step(n) >= 0) return {script_.backward_step(n), Part::end};
    return {b1_, Part::after};
  }

  Graph::Step again(Graph::Step step) {
    step.phase = Phase::backward;
    if (region_.contains(step.node)) step.node = clone(step.node);
    return step;
  }

  std::int64_t clone(std::int64_t id) {
    const auto [entry, is_new] = clones_.try_emplace(id, std::ssize(result_.nodes));
    if (is_new) {
      result_.nodes.push_back(node(id));
      result_.nodes.back().recomputed = true;
    }
    return entry->second;
  }

  // ---- gradients that cross the border ----

  // Follows g, the gradient of the result, from rule to rule: `holders` are the values whose
  // gradient, as far as it is summed up, is g's own buffer.
  void hold_gradients() {
    const std::int64_t bytes = gradient_bytes(was_.graph.values[at(result_value_)]);
    std::set<std::int64_t> holders{result_value_}, begun;
    bool held = false;
    for (std::int64_t n = region_.last; n >= region_.first; --n) {
      const std::int64_t step = script_.backward_step(n);
      if (step < 0) continue;
      const bool reads_g = holders.erase(node(n).output) > 0;
      for (std::size_t k = 0; k < node(n).inputs.size(); ++k) {
        const std::int64_t input = node(n).inputs[k];
        const Graph::Value& value = was_.graph.values[at(input)];
        if (value.producer < 0 && !value.leaf) continue;
        const bool is_first = begun.insert(input).second;
        const bool passed = reads_g && passes_gradient_on(was_.graph, node(n), k);
        if (is_first) begin_gradient(input, step);
        if (holders.contains(input)) {
          // A sum written into g, unless others see it: then into what is added.
          if (holders.size() == 1 && !passed && !std::exchange(held, true))
            hold_buffer(step, bytes);
          holders.erase(input);
        } else if (is_first && passed) {
          holders.insert(input);
        }
      }
      if (reads_g && holders.empty() && !std::exchange(held, true)) keep_alive(step, bytes);
    }
    if (!holders.empty() && !held) {
      const std::int64_t copy = script_.add_storage({.bytes = bytes, .operation = "gradient"});
      script_.be_born(copy, {b1_, Part::after});
      script_.die(copy, {b1_, Part::after});
    }
  }

  // The first part of an input's gradient has a buffer of its own, though there is a sum to add it
  // to outside.
  void begin_gradient(std::int64_t input, std::int64_t step) {
    const Graph::Value& value = was_.graph.values[at(input)];
    const std::int64_t reader = was_.readers.last_of_value(input);
    if (region_.contains(value.producer) || reader <= region_.last) return;
    if (script_.backward_step(reader) >= 0) hold_buffer(step, gradient_bytes(value));
  }

  // One buffer more from this step to the region's end: what is born and dies in the step without
  // the checkpoint, else a new one.
  void hold_buffer(std::int64_t step, std::int64_t bytes) {
    for (const Graph::Event& event : script_.events(step)) {
      if (!event.birth || was_.graph.storages[at(event.storage)].bytes != bytes ||
          script_.death_step(event.storage) != step)
        continue;
      return script_.die(event.storage, {b1_, Part::after});
    }
    const std::int64_t buffer = script_.add_storage({.bytes = bytes, .operation = "checkpoint"});
    script_.be_born(buffer, {step, Part::start});
    script_.die(buffer, {b1_, Part::after});
  }

  // g is read for the last time: it dies here without the checkpoint, or becomes another gradient.
  void keep_alive(std::int64_t step, std::int64_t bytes) {
    for (const Graph::Event& event : script_.events(step)) {
      const bool is_g = !event.birth && was_.graph.storages[at(event.storage)].bytes == bytes &&
                        script_.birth_step(event.storage) != step &&
                        was_.keepers.of_storage(event.storage).empty();
      if (is_g) return script_.die(event.storage, {b1_, Part::after});
    }
    hold_buffer(step, bytes);
  }

  const Original& was_;
  const Region& region_;
  Graph& result_;
  Script& script_;
  std::int64_t result_value_ = -1, checkpoint_ = -1;
  std::int64_t f0_ = -1, f1_ = -1, b0_ = -1, b1_ = -1;  // steps
  std::vector<std::int64_t> inputs_, parameters_;       // values
  std::set<std::int64_t> born_, entering_;              // storages
  std::map<std::int64_t, std::int64_t> kept_;           // storages, and who keeps them first
  std::map<std::int64_t, std::int64_t> clones_;         // nodes
};

}  // namespace

Graph checkpointed(const Graph& graph, std::string_view path) {
  const std::vector<Region> regions = find_regions("whatif", graph, path);
  const Original original(graph);
  Graph result = graph;
  Script script(result);
  std::vector<bool> inside(graph.nodes.size(), false);
  for (const Region& region : regions)
    std::fill(inside.begin() + region.first, inside.begin() + region.last + 1, true);
  std::erase_if(result.saved, [&](const auto& slot) { return inside[at(slot.node)]; });
  for (const Region& region : regions) {
    Checkpoint checkpoint(original, region, result, script);
    checkpoint.apply();
    checkpoint.add_slots();
  }
  if (script.has_events()) script.finish();
  validate(result, "whatif");
  return result;
}

}  // namespace tapehead::graph
