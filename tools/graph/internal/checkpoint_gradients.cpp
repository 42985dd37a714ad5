#include <tapehead/graph/internal/checkpoint_gradients.h>
#include <tapehead/graph/internal/module_path.h>
#include <tapehead/graph/internal/value_bytes.h>
#include <tapehead/graph/internal/view_operations.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tapehead::graph {
namespace {

using Part = Script::Part;

// The gradient is a row-major tensor.
std::int64_t gradient_bytes(const Graph::Value& value) {
  return bytes_of(value.shape, value.dtype);
}

// Whether the gradient of the node's output is, as it is, the gradient of this input.
bool passes_gradient_on(const Original& was, const Graph::Node& node, std::size_t input) {
  // Views of a part, whose rules put g among zeros.
  static constexpr std::array<std::string_view, 4> parts = {"narrow", "slice", "select",
                                                            "diagonal"};
  const bool same_shape = was.value(node.inputs[input]).shape == was.value(node.output).shape;
  if (node.operation == "add" || node.operation == "expand") return same_shape;
  if (node.operation == "sub") return input == 0 && same_shape;
  if (std::ranges::find(parts, node.operation) != parts.end()) return false;
  return is_view(node.operation) || is_copy(node.operation);
}

// Follows g, the gradient of the result, from rule to rule.
class GradientWalk {
 public:
  GradientWalk(const CheckpointRegion& region, Script& script)
      : region_(region),
        was_(region.was),
        script_(script),
        g_bytes_(gradient_bytes(was_.value(region.result))),
        holders_{region.result} {}

  // The storage of a sum that went to g before, or -1.
  std::int64_t run() {
    held_ = is_shared_outside();
    for (std::int64_t n = region_.region.last; n >= region_.region.first; --n)
      if (const std::int64_t step = script_.backward_step(n); step >= 0) pass_rule(n, step);
    if (holders_.empty() || held_) return sum_;
    // g has become the gradient of what enters: the checkpoint hands out a copy.
    const std::int64_t copy = script_.add_storage({.bytes = g_bytes_, .operation = "gradient"});
    script_.be_born(copy, {region_.b1, Part::after});
    script_.die(copy, {region_.b1, Part::after});
    return sum_;
  }

 private:
  // Whether g is also, and stays, the gradient of a value from before the region, as with a
  // residual: then it is written to by no rule of the region, and outlives it.
  bool is_shared_outside() const {
    const std::int64_t reader = was_.readers.last_of_value(region_.result);
    if (reader <= region_.region.last || was_.readers.count_of_value(region_.result) != 1)
      return false;
    const Graph::Node& node = was_.node(reader);
    bool passed = false, shared = false;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::int64_t input = node.inputs[k];
      const Graph::Value& value = was_.value(input);
      if (!passes_gradient_on(was_, node, k)) continue;
      if (input == region_.result) passed = true;
      else if (value.leaf || (value.producer >= 0 && value.producer < region_.region.first))
        shared = shared || was_.readers.last_of_value(input) == reader;
    }
    return passed && shared;
  }

  void pass_rule(std::int64_t n, std::int64_t step) {
    const Graph::Node& node = was_.node(n);
    const bool reads_g = holders_.erase(node.output) > 0;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const std::int64_t input = node.inputs[k];
      if (was_.value(input).producer < 0 && !was_.value(input).leaf) continue;
      const bool is_first = begun_.insert(input).second;
      if (is_first) begin_gradient(input, step);
      add_gradient(input, step, is_first, reads_g && passes_gradient_on(was_, node, k));
    }
    if (reads_g && holders_.empty() && !std::exchange(held_, true)) keep_alive(step);
  }

  void add_gradient(std::int64_t input, std::int64_t step, bool is_first, bool is_g) {
    if (holders_.contains(input)) {
      // A sum written into g, unless others see it: then into what is added.
      const bool writes_to_g = holders_.size() == 1 && !is_g;
      if (writes_to_g && !std::exchange(held_, true)) sum_ = hold_buffer(step, g_bytes_);
      holders_.erase(input);
    } else if (is_first && is_g) {
      holders_.insert(input);
    }
  }

  // The first part of an input's gradient has a buffer of its own, though there is a sum to add it
  // to outside.
  void begin_gradient(std::int64_t input, std::int64_t step) {
    const std::int64_t reader = was_.readers.last_of_value(input);
    if (region_.contains(was_.value(input).producer) || reader <= region_.region.last) return;
    if (script_.backward_step(reader) >= 0) hold_buffer(step, gradient_bytes(was_.value(input)));
  }

  // One buffer more from this step to the region's end: what is born and dies in the step without
  // the checkpoint, else a new one.
  std::int64_t hold_buffer(std::int64_t step, std::int64_t bytes) {
    for (const Graph::Event& event : script_.events(step))
      if (event.birth && was_.bytes(event.storage) == bytes &&
          script_.death_step(event.storage) == step) {
        script_.die(event.storage, {region_.b1, Part::after});
        return event.storage;
      }
    const std::int64_t buffer = script_.add_storage({.bytes = bytes, .operation = "checkpoint"});
    script_.be_born(buffer, {step, Part::start});
    script_.die(buffer, {region_.b1, Part::after});
    return buffer;
  }

  // g is read for the last time: it dies here without the checkpoint, or becomes another gradient.
  void keep_alive(std::int64_t step) {
    for (const Graph::Event& event : script_.events(step))
      if (!event.birth && was_.bytes(event.storage) == g_bytes_ &&
          script_.birth_step(event.storage) != step &&
          was_.keepers.of_storage(event.storage).empty())
        return script_.die(event.storage, {region_.b1, Part::after});
    hold_buffer(step, g_bytes_);
  }

  const CheckpointRegion& region_;
  const Original& was_;
  Script& script_;
  const std::int64_t g_bytes_;
  std::set<std::int64_t> holders_;  // values whose gradient, as far as it is summed, is g's buffer
  std::set<std::int64_t> begun_;    // values whose gradient has a part
  bool held_ = false;
  std::int64_t sum_ = -1;
};

// What lives at the end of a region's backward steps: the birth, and the event that is the death.
class BehindRegion {
 public:
  BehindRegion(const Region& region, const Graph& graph)
      : graph_(graph), birth_(graph.storages.size(), -1), death_(graph.storages.size(), -1) {
    for (std::int64_t step = 0; step < std::ssize(graph.steps); ++step)
      if (is_end(region, graph.steps[at(step)])) last_ = step;
    first_ = last_;
    while (first_ > 0 && is_inside(region, graph.steps[at(first_ - 1)])) --first_;
    for (std::int64_t i = 0; i < std::ssize(graph.events); ++i) {
      const Graph::Event& event = graph.events[at(i)];
      (event.birth ? birth_ : death_)[at(event.storage)] = event.birth ? event.step : i;
    }
  }

  bool is_there() const { return last_ >= 0; }
  // Of the backward pass.
  bool is_born_before(std::int64_t storage) const {
    const std::int64_t birth = birth_[at(storage)];
    return birth >= 0 && birth < first_ && graph_.steps[at(birth)].phase == Graph::Phase::backward;
  }
  bool outlives(std::int64_t storage) const {
    const std::int64_t death = death_[at(storage)];
    return death < 0 || graph_.events[at(death)].step > last_;
  }
  std::int64_t death_event(std::int64_t storage) const { return death_[at(storage)]; }

 private:
  static bool is_end(const Region& region, const Graph::Step& step) {
    return step.phase == Graph::Phase::backward && step.operation == "checkpoint" &&
           step.node == region.last;
  }
  static bool is_inside(const Region& region, const Graph::Step& step) {
    return step.phase == Graph::Phase::backward && lies_in(step.module, region.path);
  }

  const Graph& graph_;
  std::vector<std::int64_t> birth_, death_;  // by storage: a step, an event
  std::int64_t first_ = -1, last_ = -1;      // steps
};

// The storage in which g goes on where the sum is written to it; -1 when that is not certain.
std::int64_t find_g(const BehindRegion& behind, const Graph& graph, std::int64_t sum) {
  const Keepers keepers(graph);
  std::int64_t found = -1;
  for (std::int64_t id = 0; id < std::ssize(graph.storages); ++id) {
    const Graph::Storage& storage = graph.storages[at(id)];
    if (storage.bytes != graph.storages[at(sum)].bytes || !behind.is_born_before(id) ||
        !behind.outlives(id) || behind.death_event(id) < 0 || !keepers.of_storage(id).empty())
      continue;
    if (found >= 0) return -1;
    found = id;
  }
  return found;
}

}  // namespace

std::int64_t hold_gradients(const CheckpointRegion& region, Script& script) {
  return GradientWalk(region, script).run();
}

void pass_on_sum(const Region& region, std::int64_t sum, Graph& graph) {
  const BehindRegion behind(region, graph);
  const std::int64_t g = behind.is_there() ? find_g(behind, graph, sum) : -1;
  if (g >= 0 && behind.death_event(sum) >= 0 && !behind.outlives(sum))
    std::swap(graph.events[at(behind.death_event(sum))].storage,
              graph.events[at(behind.death_event(g))].storage);
}

}  // namespace tapehead::graph
