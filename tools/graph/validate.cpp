#include <tapehead/core/error.h>
#include <tapehead/graph/validate.h>

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
      for (const std::int64_t input : node.inputs)
        require(is_row(input, graph_.values.size()), "inputs names no row of values");
      require(is_row(node.output, graph_.values.size()), "output names no row of values");
      for (const std::int64_t input : node.donatable)
        require(is_row(input, node.inputs.size()), "donatable names no input of the node");
      add_up(flops, node.flops);
    }
    table_ = "saved";
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

  // A storage is born at most once, before it dies, and dies at most once. What no event gives
  // birth to lived before, and is part of live_before.
  void check_events() {
    table_ = "events";
    enum class Life : char { unseen, born, dead };
    std::vector<Life> lives(graph_.storages.size(), Life::unseen);
    std::int64_t previous = 0;
    for (row_ = 0; row_ < graph_.events.size(); ++row_) {
      const Graph::Event& event = graph_.events[row_];
      require(is_row(event.step, graph_.steps.size()), "step names no row of steps");
      require(event.step >= std::exchange(previous, event.step), "the steps are not in order");
      require(is_row(event.storage, graph_.storages.size()), "storage names no row of storages");
      Life& life = lives[static_cast<std::size_t>(event.storage)];
      require(life != Life::dead && (event.birth ? life == Life::unseen : true),
              "the storage is born twice or dies twice");
      life = event.birth ? Life::born : Life::dead;
    }
    row_ = 0;
    require(graph_.live_before >= 0, "live_before is negative");
    add_up(bytes_, graph_.live_before);
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
  std::int64_t bytes_ = 0;  // of all storages and packings, and live_before
};

}  // namespace

void validate(const Graph& graph, std::string_view source) { Validator(graph, source).run(); }

}  // namespace tapehead::graph
