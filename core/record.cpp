#include <tapehead/core/record.h>
#include <tapehead/core/scope.h>

#include <algorithm>

namespace tapehead {

Recorder::Recorder(Node& node, Tensor& y, std::span<const Tensor* const> inputs)
    : tape_(*Tape::recording()), y_(y) {
  bool tracked = false;
  node.inputs_.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    node.inputs_.push_back(tape_.resolve(node.operation_, *input));
    tracked = tracked || node.inputs_.back().tracked;
  }
  if (!tracked || !is_floating(y.dtype())) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!node.inputs_[i].tracked) node.inputs_[i].value = tape_.value_of(*inputs[i]);
  node.tape_ = &tape_;
  node.path_ = &ModuleScope::path();
  tape_.make_room_for_a_node();
  node.output_ = tape_.add_value(y, static_cast<std::int64_t>(tape_.nodes_.size()));
  y.impl()->tracking = detail::Tracking::recorded;
  y.impl()->stamp = {tape_.serial_, node.output_};
  stamped_ = true;
}

Recorder::~Recorder() {
  if (!stamped_ || committed_) return;
  y_.impl()->tracking = detail::Tracking::constant;
  y_.impl()->stamp = {};
}

void Recorder::commit(std::unique_ptr<Node> node) noexcept {
  tape_.nodes_.push_back(std::move(node));
  committed_ = true;
}

Tensor mark_unrecorded(Tensor y, std::span<const Tensor* const> inputs) {
  if (Tape::paused() || !is_floating(y.dtype())) return y;
  const bool loses_gradient = std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
    return input->is_leaf() || input->impl()->tracking == detail::Tracking::untracked;
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
                                      "rule; detach() the input or pause the tape");
}

}  // namespace tapehead
