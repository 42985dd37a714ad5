#include <tapehead/core/ledger.h>
#include <tapehead/core/record.h>
#include <tapehead/core/scope.h>

#include <algorithm>

namespace tapehead {

Recorder::Recorder(Node& node, Tensor& y, std::span<const Tensor* const> inputs)
    : tape_(*Tape::recording()), y_(y), first_edge_(tape_.edges_.size()) {
  try {
    stamped_ = add_edges(node.operation_, inputs) && is_floating(y.dtype());
    if (!stamped_) {
      tape_.edges_.resize(first_edge_);
      return;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Edge& edge = tape_.edges_[first_edge_ + i];
      if (!edge.tracked) edge.value = tape_.value_of(*inputs[i]);
    }
    tape_.make_room_for_a_node();
    node.output_ = tape_.add_value(y, static_cast<std::int64_t>(tape_.nodes_.size()));
  } catch (...) {
    tape_.edges_.resize(first_edge_);
    throw;
  }
  node.tape_ = &tape_;
  node.path_ = &ModuleScope::path();
  node.first_edge_ = static_cast<std::uint32_t>(first_edge_);
  node.input_count_ = static_cast<std::uint32_t>(inputs.size());
  y.impl()->tracking = detail::Tracking::recorded;
  y.impl()->stamp = {tape_.serial_, node.output_};
}

bool Recorder::add_edges(const char* operation, std::span<const Tensor* const> inputs) {
  bool tracked = false;
  for (const Tensor* input : inputs) {
    tape_.edges_.push_back(tape_.resolve(operation, *input));
    tracked = tracked || tape_.edges_.back().tracked;
  }
  return tracked;
}

Recorder::~Recorder() {
  if (!stamped_ || committed_) return;
  y_.impl()->tracking = detail::Tracking::constant;
  y_.impl()->stamp = {};
  tape_.edges_.resize(first_edge_);
}

void Recorder::commit(std::unique_ptr<Node> node) noexcept {
  tape_.nodes_.push_back(std::move(node));
  committed_ = true;
  if (Ledger::watching())
    Ledger::end_step(Graph::Phase::forward, tape_, *tape_.nodes_.back(), tape_.nodes_.size() - 1);
}

Tensor mark_unrecorded(Tensor y, std::span<const Tensor* const> inputs) {
  if (Tape::paused() || !is_floating(y.dtype())) return y;
  const bool loses_gradient = std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
    const detail::TensorImpl& impl = *input->impl();
    if (impl.tracking != detail::Tracking::recorded)
      return impl.tracking != detail::Tracking::constant;
    return Tape::is_open(impl.stamp.tape);  // the tape of another thread, which does not see this
  });
  if (loses_gradient) y.impl()->tracking = detail::Tracking::untracked;
  return y;
}

void require_no_gradient(const char* operation, std::initializer_list<const Tensor*> inputs) {
  Tape* tape = Tape::recording();
  if (!tape) return;
  for (const Tensor* input : inputs)
    if (tape->resolve(operation, *input).tracked)
      throw StateError(operation, "input " + describe(*input) +
                                      " wants a gradient, but this operation has no backward "
                                      "rule; pass x.detach() or pause the tape");
}

}  // namespace tapehead
