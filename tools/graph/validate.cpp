#include <tapehead/core/error.h>
#include <tapehead/graph/validate.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tapehead::graph {
namespace {

// Wide enough for what a shape of at most 2^63 elements and strides of 64 bits can reach.
__extension__ using Wide = __int128;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

class Validator {
 public:
  Validator(const Graph& graph, std::string_view source) : graph_(graph), source_(source) {}

  void run() {
    check_storages();
    check_packings();
    for (row_ = 0; row_ < graph_.values.size(); ++row_) check_value(graph_.values[row_]);
    check_nodes();
    for (row_ = 0; row_ < graph_.saved.size(); ++row_) check_slot(graph_.saved[row_]);
    check_steps();
    check_events();
    check_lives();
  }

 private:
  void check_storages() {
    table_ = "storages";
    for (row_ = 0; row_ < graph_.storages.size(); ++row_)
      add_up(bytes_, graph_.storages[row_].bytes);
  }

  void check_packings() {
    table_ = "packings";
    for (row_ = 0; row_ < graph_.packings.size(); ++row_)
      add_up(bytes_, graph_.packings[row_].bytes);
    table_ = "values";
  }

  void check_value(const Graph::Value& value) {
    require(is_row(value.storage, graph_.storages.size()), "storage names no row of storages");
    require(
        value.producer >= -1 && (value.producer < 0 || is_row(value.producer, graph_.nodes.size())),
        "producer names no row of nodes");
    require(value.shape.rank() == value.strides.rank(), "shape and strides differ in length");
    check_window(value);
  }

  // The first and the last element that the strides reach, counted in elements.
  void check_window(const Graph::Value& value) {
    Wide first = value.offset, last = value.offset, count = 1;
    const Wide size = static_cast<Wide>(size_of(value.dtype));
    bool empty = false;
    for (int i = 0; i < value.shape.rank(); ++i) {
      require(value.shape[i] >= 0, "shape has a negative size");
      empty = empty || value.shape[i] == 0;
      const Wide reach = Wide{value.shape[i] - 1} * value.strides[i];
      (reach < 0 ? first : last) += reach;
      if (value.shape[i] > 0) count *= value.shape[i];
      require(count <= largest / size, "shape has more bytes than 64 bits can count");
    }
    if (empty) return;
    const Wide bytes = graph_.storages[static_cast<std::size_t>(value.storage)].bytes;
    require(first >= 0 && (last + 1) * size <= bytes, "the window reaches outside its storage");
  }

  void check_nodes() {
    table_ = "nodes";
    std::int64_t flops = 0;
    for (row_ = 0; row_ < graph_.nodes.size(); ++row_) {
      const Graph::Node& node = graph_.nodes[row_];
      for (const std::int64_t input : node.inputs) check_input(input);
      require(is_row(node.output, graph_.values.size()), "output names no row of values");
      for (const std::int64_t input : node.donatable)
        require(is_row(input, node.inputs.size()), "donatable names no input of the node");
      add_up(flops, node.flops);
    }
    table_ = "saved";
  }

  // Results come before those who read them, as a tape records them.
  void check_input(std::int64_t input) const {
    require(is_row(input, graph_.values.size()), "inputs names no row of values");
    const std::int64_t producer = graph_.values[static_cast<std::size_t>(input)].producer;
    require(producer < static_cast<std::int64_t>(row_),
            "inputs names a value that this node or a later one makes");
  }

  void check_slot(const Graph::SavedSlot& slot) {
    require(is_row(slot.node, graph_.nodes.size()), "node names no row of nodes");
    require(is_row(slot.value, graph_.values.size()), "value names no row of values");
    require(slot.packing == -1 || is_row(slot.packing, graph_.packings.size()),
            "packing names no row of packings");
    const std::size_t inputs = graph_.nodes[static_cast<std::size_t>(slot.node)].inputs.size();
    for (const std::int64_t input : slot.for_inputs)
      require(is_row(input, inputs), "for_inputs names no input of the node");
  }

  void check_steps() {
    table_ = "steps";
    for (row_ = 0; row_ < graph_.steps.size(); ++row_) {
      const std::int64_t node = graph_.steps[row_].node;
      require(node == -1 || is_row(node, graph_.nodes.size()), "node names no row of nodes");
    }
  }

  // The steps of an operation, or those between which a storage lives, both included.
  struct Steps {
    std::int64_t first, last;
  };
  static constexpr Steps no_steps{largest, -1}, unseen_life{-1, largest};

  // A storage is born at most once, before it dies, and dies at most once. What no event gives
  // birth to lived before.
  void check_events() {
    table_ = "events";
    lives_.assign(graph_.storages.size(), unseen_life);
    std::int64_t previous = 0;
    for (row_ = 0; row_ < graph_.events.size(); ++row_) {
      const Graph::Event& event = graph_.events[row_];
      require(is_row(event.step, graph_.steps.size()), "step names no row of steps");
      require(event.step >= std::exchange(previous, event.step), "the steps are not in order");
      require(is_row(event.storage, graph_.storages.size()), "storage names no row of storages");
      Steps& life = lives_[static_cast<std::size_t>(event.storage)];
      require(life.last == largest && (!event.birth || life.first < 0),
              "the storage is born twice or dies twice");
      (event.birth ? life.first : life.last) = event.step;
    }
    row_ = 0;
    require(graph_.live_before >= 0, "live_before is negative");
    add_up(bytes_, graph_.live_before);
  }

  // What an operation reads and makes lives in the step that records it, and what its slots keep
  // lives until its rule has run. (Of bytes nothing more can be asked: other threads give birth
  // and free without events here, and live_before leaves out what they, or a dry run's caller, had
  // made.)
  void check_lives() {
    std::vector<Steps> recorded(graph_.nodes.size(), no_steps), all = recorded;
    for (std::int64_t i = 0; i < std::ssize(graph_.steps); ++i) {
      const Graph::Step& step = graph_.steps[static_cast<std::size_t>(i)];
      if (step.node < 0) continue;
      const auto node = static_cast<std::size_t>(step.node);
      add_step(all[node], i);
      if (step.phase == Graph::Phase::forward) add_step(recorded[node], i);
    }
    table_ = "nodes";
    for (row_ = 0; row_ < graph_.nodes.size(); ++row_) {
      const Graph::Node& node = graph_.nodes[row_];
      for (const std::int64_t input : node.inputs)
        require(lives(input, recorded[row_]),
                "the storage of an input is not live in the step that records the node");
      require(lives(node.output, recorded[row_]),
              "the storage of the output is not live in the step that records the node");
    }
    table_ = "saved";
    for (row_ = 0; row_ < graph_.saved.size(); ++row_) {
      const Graph::SavedSlot& slot = graph_.saved[row_];
      require(slot.packing >= 0 || lives(slot.value, all[static_cast<std::size_t>(slot.node)]),
              "the storage of the value is not live in all steps of the node");
    }
  }

  static void add_step(Steps& steps, std::int64_t step) {
    steps = {std::min(steps.first, step), std::max(steps.last, step)};
  }

  bool lives(std::int64_t value, const Steps& steps) const {
    const auto storage = graph_.values[static_cast<std::size_t>(value)].storage;
    const Steps& life = lives_[static_cast<std::size_t>(storage)];
    return life.first <= steps.first && steps.last <= life.last;
  }

  static bool is_row(std::int64_t id, std::size_t rows) {
    return id >= 0 && static_cast<std::size_t>(id) < rows;
  }

  void add_up(std::int64_t& total, std::int64_t part) const {
    require(part >= 0, "a count is negative");
    require(part <= largest - total, "the counts add up to more than 64 bits can hold");
    total += part;
  }

  void require(bool holds, std::string_view broken) const {
    if (holds) return;
    throw ValueError("read_json", std::string(source_) + ": row " + std::to_string(row_) + " of " +
                                      table_ + ": " + std::string(broken));
  }

  const Graph& graph_;
  std::string_view source_;
  std::string table_;
  std::size_t row_ = 0;
  std::int64_t bytes_ = 0;    // of all storages and packings, and live_before
  std::vector<Steps> lives_;  // of storages
};

}  // namespace

void validate(const Graph& graph, std::string_view source) { Validator(graph, source).run(); }

}  // namespace tapehead::graph
