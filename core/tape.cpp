#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>

#include <algorithm>
#include <mutex>
#include <set>

namespace tapehead {
namespace {

struct Recording {
  Tape* tape = nullptr;
  bool paused = false;
};
constinit thread_local Recording recording_state;

// The serials of all open tapes, so that a new tape knows which older ones had not closed yet.
struct OpenTapes {
  std::mutex mutex;
  std::uint64_t last_serial = 0;
  std::set<std::uint64_t> serials;
};

OpenTapes& open_tapes() {
  static OpenTapes& tapes = *new OpenTapes;
  return tapes;
}

std::uint64_t open_serial(std::vector<std::uint64_t>& open_before) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  open_before.assign(tapes.serials.begin(), tapes.serials.end());
  tapes.serials.insert(++tapes.last_serial);
  return tapes.last_serial;
}

bool is_open(std::uint64_t serial) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  return tapes.serials.contains(serial);
}

void close_serial(std::uint64_t serial) {
  OpenTapes& tapes = open_tapes();
  const std::lock_guard lock(tapes.mutex);
  tapes.serials.erase(serial);
}

Tensor seed_of_one(const Tensor& y) {
  if (y.numel() != 1)
    throw ShapeError("gradient", "y " + describe(y) +
                                     " has not exactly one element, so its gradient (the seed) "
                                     "must be given");
  return filled("gradient", y.shape(), y.dtype(), 1.0);
}

void check_seed(const Tensor& y, const Tensor& seed) {
  check_same_dtype("gradient", y, seed, "y", "seed");
  if (y.shape() != seed.shape())
    throw ShapeError("gradient",
                     "y " + describe(y) + " and seed " + describe(seed) + " must have one shape");
}

}  // namespace

// ---- life ----------------------------------------------------------------------------------------

Tape::Tape()
    : serial_(open_serial(open_at_birth_)),
      thread_(std::this_thread::get_id()),
      outer_(recording_state.tape),
      outer_paused_(recording_state.paused) {
  recording_state = {this, false};
}

Tape::~Tape() {
  if (recording_state.tape == this) recording_state = {outer_, outer_paused_};
  close_serial(serial_);
}

Tape* Tape::recording() { return recording_state.paused ? nullptr : recording_state.tape; }

bool Tape::paused() { return recording_state.paused; }

Tape::Pause::Pause() : previous_(std::exchange(recording_state.paused, true)) {}
Tape::Pause::~Pause() { recording_state.paused = previous_; }

// ---- values --------------------------------------------------------------------------------------

bool Tape::was_closed_at_birth(std::uint64_t serial) const {
  return serial < serial_ &&
         !std::binary_search(open_at_birth_.begin(), open_at_birth_.end(), serial);
}

void Tape::reject_foreign(const char* operation, const Tensor& x) const {
  if (is_open(x.impl()->stamp.tape))
    throw StateError(operation, "input " + describe(x) +
                                    " was recorded on another open tape; only the innermost tape "
                                    "of a thread records, so its gradient would be lost; use "
                                    "detach() if that is meant");
  throw StateError(operation, "input " + describe(x) +
                                  " was recorded on a tape that closed after this one had opened; "
                                  "its gradient is lost; use detach() if that is meant");
}

Edge Tape::resolve(const char* operation, const Tensor& x) {
  if (!x.defined()) throw ValueError(operation, "an input is undefined");
  switch (x.impl()->tracking) {
    case detail::Tracking::constant: return {};
    case detail::Tracking::leaf: return {value_of_leaf(x), true};
    case detail::Tracking::recorded: {
      const Stamp stamp = x.impl()->stamp;
      if (stamp.tape == serial_) return {stamp.value, true};
      if (was_closed_at_birth(stamp.tape)) return {};
      reject_foreign(operation, x);
    }
    case detail::Tracking::untracked: break;
  }
  throw StateError(operation, "input " + describe(x) +
                                  " was computed from a parameter while no tape was open, so its "
                                  "gradient is lost; compute it under the tape, or use detach() "
                                  "if that is meant");
}

std::uint32_t Tape::value_of(const Tensor& x) {
  if (x.is_leaf()) return value_of_leaf(x);
  const detail::TensorImpl& impl = *x.impl();
  if (impl.tracking == detail::Tracking::recorded && impl.stamp.tape == serial_)
    return impl.stamp.value;
  return add_value(x, -1);
}

std::uint32_t Tape::value_of_leaf(const Tensor& leaf) {
  const auto found = leaf_values_.find(leaf.impl());
  if (found != leaf_values_.end()) return found->second;
  leaves_.push_back(leaf);
  const std::uint32_t value = add_value(leaf, -1);
  leaf_values_.emplace(leaf.impl(), value);
  return value;
}

void Tape::make_room_for_a_node() {
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(2 * nodes_.size() + 16);
}

std::uint32_t Tape::add_value(const Tensor& x, std::int64_t producer) {
  const detail::TensorImpl& impl = *x.impl();
  const auto value = static_cast<std::uint32_t>(values_.size());
  if (impl.name) names_.emplace(value, *impl.name);
  values_.push_back({.storage = impl.storage->id(),
                     .storage_bytes = static_cast<std::int64_t>(impl.storage->bytes()),
                     .offset = impl.offset,
                     .dims = dims_.size(),
                     .producer = producer,
                     .rank = static_cast<std::uint8_t>(impl.shape.rank()),
                     .dtype = impl.dtype,
                     .category = impl.storage->category(),
                     .leaf = x.is_leaf()});
  dims_.insert(dims_.end(), impl.shape.begin(), impl.shape.end());
  dims_.insert(dims_.end(), impl.strides.begin(), impl.strides.end());
  return value;
}

Shape Tape::shape_of(std::uint32_t value) const {
  const ValueRow& row = values_[value];
  return Shape(std::span(dims_).subspan(row.dims, row.rank));
}

Strides Tape::strides_of(std::uint32_t value) const {
  const ValueRow& row = values_[value];
  return Strides(std::span(dims_).subspan(row.dims + row.rank, row.rank));
}

void Tape::check_own_thread(const char* operation) const {
  if (std::this_thread::get_id() != thread_)
    throw StateError(operation, "this tape belongs to another thread");
}

// ---- the reverse walk ----------------------------------------------------------------------------

class Tape::Walk {
 public:
  Walk(Tape& tape, GradientOptions options)
      : tape_(tape),
        keep_(options.keep || options.create_graph),
        create_graph_(options.create_graph),
        end_(tape.nodes_.size()),
        needed_(tape.values_.size(), false),
        wanted_(tape.values_.size(), false),
        partials_(tape.values_.size()) {}

  // A walk that does not keep the record consumes it, whether it ends well or not.
  ~Walk() {
    if (keep_) return;
    for (std::size_t i = tape_.consumed_; i < end_; ++i) tape_.nodes_[i]->release_saved();
    tape_.consumed_ = end_;
  }

  void want(std::uint32_t value) { needed_[value] = wanted_[value] = true; }

  // Marks every value whose gradient leads to a wanted one. One pass forward: a node's inputs stand
  // before it.
  void mark_needed() {
    for (std::size_t i = tape_.consumed_; i < end_; ++i) {
      const Node& node = *tape_.nodes_[i];
      for (const Edge edge : node.inputs())
        if (edge.tracked && needed_[edge.value]) needed_[node.output_] = true;
    }
  }

  // StateError if a gradient of one of `ys` would have to pass through a consumed operation.
  void check_not_consumed(const std::vector<std::uint32_t>& ys) const {
    if (tape_.consumed_ == 0) return;
    std::vector<bool> reached(tape_.values_.size(), false);
    for (const std::uint32_t y : ys) reached[y] = true;
    for (std::size_t i = end_; i-- > tape_.consumed_;) {
      const Node& node = *tape_.nodes_[i];
      if (!reached[node.output_]) continue;
      for (const Edge edge : node.inputs())
        if (edge.tracked) reached[edge.value] = true;
    }
    for (std::size_t i = 0; i < tape_.consumed_; ++i)
      if (reached[tape_.nodes_[i]->output_])
        throw StateError("gradient",
                         std::string("the record of ") + tape_.nodes_[i]->operation() +
                             " was consumed by an earlier gradient call; that call must pass "
                             "{.keep = true} for the record to be walked again");
  }

  void add(std::uint32_t value, Tensor gradient) {
    Tensor& partial = partials_[value];
    if (!partial.defined()) {
      partial = std::move(gradient);
    } else if (create_graph_) {
      partial = accumulate(partial, gradient);
    } else {
      if (!is_exclusive(partial)) {
        if (!is_exclusive(gradient)) gradient = copied("accumulate", gradient);
        std::swap(partial, gradient);
      }
      launch([&] { add_into(partial.view(), gradient.view()); });
    }
  }

  void run() {
    for (std::size_t i = end_; i-- > tape_.consumed_;) {
      // A rule that is being recorded grows the list; the node itself does not move.
      Node& node = *tape_.nodes_[i];
      if (partials_[node.output_].defined() && needed_[node.output_]) run_rule(node);
      if (!keep_) node.release_saved();
    }
  }

  // A gradient to hand out: row-major and nobody else's, so that its owner may scale it in place.
  // Recorded gradients cannot be written to, so they may share.
  Tensor take_result(std::uint32_t value) {
    Tensor gradient = std::move(partials_[value]);
    if (!gradient.defined()) return gradient;
    if (!create_graph_ && !(is_exclusive(gradient) && gradient.is_contiguous()))
      gradient = copied("gradient", gradient);
    gradient.storage()->set_category(Category::gradient);
    return gradient;
  }

 private:
  void run_rule(Node& node) {
    Tensor& gradient = partials_[node.output_];
    // The rule gets the only handle, so that it can work in place; the gradient of an intermediate
    // that was asked for must survive its own rule.
    Tensor g = wanted_[node.output_] ? gradient : std::move(gradient);
    const ModuleScope::Restore scope(*node.path_);
    const Wanted wanted(node, needed_, create_graph_ ? nullptr : &partials_);
    Grads gradients = node.backward(std::move(g), wanted);
    for (std::size_t k = 0; k < node.inputs().size(); ++k) {
      if (!wanted[k]) continue;
      check(node, k, gradients);
      add(node.inputs()[k].value, std::move(gradients[k]));
    }
  }

  // A rule that returns a gradient of the wrong kind is an error of the rule, not of its caller.
  void check(const Node& node, std::size_t k, Grads& gradients) const {
    const std::uint32_t value = node.inputs()[k].value;
    const std::string input = "the backward rule's gradient of input " + std::to_string(k);
    if (k >= gradients.size() || !gradients[k].defined())
      throw StateError(node.operation(), input + " is missing");
    if (gradients[k].dtype() != tape_.values_[value].dtype ||
        gradients[k].shape() != tape_.shape_of(value))
      throw StateError(node.operation(), input + " is " + describe(gradients[k]) +
                                             ", the input is " +
                                             std::string(to_string(tape_.values_[value].dtype)) +
                                             " " + to_string(tape_.shape_of(value)));
  }

  Tape& tape_;
  const bool keep_, create_graph_;
  const std::size_t end_;  // nodes recorded during the walk are not walked
  std::vector<bool> needed_;  // the gradient of this value leads to a wanted one
  std::vector<bool> wanted_;  // the gradient of this value was asked for
  std::vector<Tensor> partials_;
};

Gradients Tape::gradient(const Tensor& y, std::span<const Tensor> wrt, Tensor seed,
                         GradientOptions options) {
  if (!seed.defined()) return gradient(std::span(&y, 1), wrt, {}, options);
  return gradient(std::span(&y, 1), wrt, std::span(&seed, 1), options);
}

Gradients Tape::gradient(std::span<const Tensor> ys, std::span<const Tensor> wrt,
                         std::span<const Tensor> seeds, GradientOptions options) {
  check_own_thread("gradient");
  if (options.create_graph && recording() != this)
    throw StateError("gradient",
                     "create_graph records on this tape, which is paused or not the innermost");
  if (!seeds.empty() && seeds.size() != ys.size())
    throw ValueError("gradient", std::to_string(seeds.size()) + " seeds for " +
                                     std::to_string(ys.size()) + " outputs");
  std::vector<std::uint32_t> y_values, wrt_values;
  for (const Tensor& y : ys) y_values.push_back(tracked_value("y", y));
  for (const Tensor& x : wrt) wrt_values.push_back(tracked_value("wrt", x));

  Walk walk(*this, options);
  walk.check_not_consumed(y_values);
  for (std::size_t k = 0; k < ys.size(); ++k) {
    Tensor seed = seeds.empty() ? seed_of_one(ys[k]) : seeds[k];
    if (!seed.defined()) continue;
    check_seed(ys[k], seed);
    walk.add(y_values[k], std::move(seed));
  }
  for (const std::uint32_t value : wrt_values) walk.want(value);
  walk.mark_needed();
  if (options.create_graph) {
    walk.run();
  } else {
    const Pause pause;
    walk.run();
  }
  Gradients result;
  for (std::size_t k = 0; k < wrt.size(); ++k)
    result.insert(wrt[k], walk.take_result(wrt_values[k]));
  return result;
}

// The row of a tensor that a gradient call names.
std::uint32_t Tape::tracked_value(const char* role, const Tensor& x) {
  const Edge edge = resolve("gradient", x);
  if (!edge.tracked)
    throw StateError("gradient", std::string(role) + " " + describe(x) +
                                     " is a constant: it was not computed from a leaf under this "
                                     "tape, and is no leaf");
  return edge.value;
}

// ---- snapshot ------------------------------------------------------------------------------------

class Tape::Snapshot {
 public:
  explicit Snapshot(const Tape& tape) : tape_(tape) {}

  Graph take() {
    for (std::size_t i = 0; i < tape_.nodes_.size(); ++i) add_node(i);
    return std::move(graph_);
  }

 private:
  void add_node(std::size_t index) {
    const Node& node = *tape_.nodes_[index];
    Graph::Node& added = graph_.nodes.emplace_back();
    added.operation = node.operation();
    added.module = *node.path_;
    added.attributes = node.attributes();
    added.flops = node.flops();
    std::vector<std::int64_t> inputs;
    for (const Edge edge : node.inputs()) inputs.push_back(value(edge.value));
    graph_.nodes[index].inputs = std::move(inputs);
    graph_.nodes[index].output = value(node.output_);
    for (const Saved* saved = node.first_saved_; saved; saved = saved->next_)
      if (saved->was_saved_) add_saved(static_cast<std::int64_t>(index), node, *saved);
  }

  void add_saved(std::int64_t index, const Node& node, const Saved& saved) {
    Graph::SavedSlot slot{index, saved.name(), saved.reason(), {}, value(saved.value_)};
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (node.wants(i) && (saved.for_inputs_ >> i & 1u))
        slot.for_inputs.push_back(static_cast<std::int64_t>(i));
    Graph::Storage& storage = storage_of(graph_.values[static_cast<std::size_t>(slot.value)]);
    if (storage.category == Category::transient) storage.category = Category::saved;
    graph_.saved.push_back(std::move(slot));
  }

  Graph::Storage& storage_of(const Graph::Value& value) {
    return graph_.storages[static_cast<std::size_t>(value.storage)];
  }

  // Rows that show the same window of the same storage are one value: a constant gets a row at each
  // use. Recorded values and leaves keep their own.
  std::int64_t value(std::uint32_t row_index) {
    const ValueRow& row = tape_.values_[row_index];
    if (const auto found = by_row_.find(row_index); found != by_row_.end()) return found->second;
    Graph::Value added;
    if (const auto name = tape_.names_.find(row_index); name != tape_.names_.end())
      added.name = name->second;
    added.dtype = row.dtype;
    added.shape = tape_.shape_of(row_index);
    added.strides = tape_.strides_of(row_index);
    added.offset = row.offset;
    added.producer = row.producer;
    added.leaf = row.leaf;
    added.storage = storage(row);
    std::int64_t id = static_cast<std::int64_t>(graph_.values.size());
    const bool constant = row.producer < 0 && !row.leaf;
    if (constant) {
      std::vector<std::int64_t>& same_storage = constants_[added.storage];
      const auto same = std::find_if(same_storage.begin(), same_storage.end(), [&](auto other) {
        return graph_.values[static_cast<std::size_t>(other)] == added;
      });
      if (same != same_storage.end()) return by_row_[row_index] = *same;
      same_storage.push_back(id);
    }
    graph_.values.push_back(std::move(added));
    return by_row_[row_index] = id;
  }

  std::int64_t storage(const ValueRow& row) {
    const auto next = static_cast<std::int64_t>(graph_.storages.size());
    const auto [found, is_new] = by_storage_.emplace(row.storage, next);
    if (is_new) graph_.storages.push_back({row.storage_bytes, row.category});
    Graph::Storage& storage = graph_.storages[static_cast<std::size_t>(found->second)];
    if (row.leaf) storage.category = Category::parameter;
    return found->second;
  }

  const Tape& tape_;
  Graph graph_;
  std::unordered_map<std::uint32_t, std::int64_t> by_row_;
  std::unordered_map<std::uint64_t, std::int64_t> by_storage_;
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> constants_;
};

Graph Tape::graph() const { return Snapshot(*this).take(); }

}  // namespace tapehead
