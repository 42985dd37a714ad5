#include <tapehead/core/arithmetic.h>
#include <tapehead/core/node.h>
#include <tapehead/core/saved_hooks.h>
#include <tapehead/core/tape.h>

#include <algorithm>

namespace tapehead {

std::span<const Edge> Node::inputs() const {
  return {tape_->edges_.data() + first_edge_, input_count_};
}

bool Wanted::operator[](std::size_t i) const {
  const Edge edge = node_.inputs()[i];
  return edge.tracked && needed_[edge.value];
}

Tensor Wanted::take_partial(std::size_t i) const {
  if (!partials_ || !(*this)[i]) return {};
  Tensor& partial = (*partials_)[node_.inputs()[i].value];
  if (!partial.defined() || !is_exclusive(partial)) return {};
  return std::move(partial);
}

Saved::Saved(Node& node, const char* name, std::initializer_list<int> for_inputs,
             const char* reason)
    : node_(node), name_(name), reason_(reason) {
  for (const int input : for_inputs) {
    if (input < 0 || input > last_listed_input)
      throw StateError(node.operation_, "saved tensor \"" + std::string(name) +
                                            "\" is read for input " + std::to_string(input) +
                                            ", outside [0, " + std::to_string(last_listed_input) +
                                            "]");
    for_inputs_ |= 1u << static_cast<unsigned>(input);
  }
  (node.last_saved_ ? node.last_saved_->next_ : node.first_saved_) = this;
  node.last_saved_ = this;
}

Saved::Saved(Node& node, const char* name, std::initializer_list<int> for_inputs,
             const char* reason, Exact)
    : Saved(node, name, for_inputs, reason) {
  exact_ = true;
}

Saved::Saved(Node& node, const char* name, const char* reason) : Saved(node, name, {}, reason) {
  for_inputs_ = all_inputs;
}

Saved::~Saved() = default;

bool Saved::is_read_for(std::size_t input) const {
  return for_inputs_ == all_inputs || (input < 32 && (for_inputs_ >> input & 1u) != 0);
}

void Saved::save(const Tensor& x) {
  // Without a tape the node is made for its attributes only.
  if (!node_.tape_) return;
  const std::span<const Edge> inputs = node_.inputs();
  bool wanted = false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    wanted = wanted || (inputs[i].tracked && is_read_for(i));
  if (!wanted) return;
  value_ = node_.tape_->value_of(x);
  // A tape that saves nothing has the same leaves as one that does, so that the two compare.
  if (node_.tape_->saves_nothing_) return;
  SavedTensorHooks* hooks = SavedTensorHooks::current();
  if (!hooks || !pack(*hooks, x)) {
    version_ = x.storage()->version();
    if (x.storage()->category() == Category::transient) x.storage()->set_category(Category::saved);
    tensor_ = x;
  }
  was_saved_ = true;
}

bool Saved::pack(SavedTensorHooks& hooks, const Tensor& x) {
  const SavedInfo info{node_.operation_, name_,  reason_,
                       *node_.path_,     exact_, x.storage()->category()};
  packed_ = node_.tape_->packings().pack(hooks, info, x);
  const detail::TensorImpl& impl = *x.impl();
  tracked_ = x.is_leaf() || (impl.tracking == detail::Tracking::recorded &&
                             impl.stamp.tape == node_.tape_->serial_);
  return packed_ != nullptr;
}

// What was unpacked stands on the tape where the original stood, so that a rule that is being
// recorded is differentiated with respect to it.
void Saved::unpack() const {
  tensor_ = packed_->unpack(node_.operation_, name_);
  if (!tracked_) return;
  tensor_.impl()->tracking = detail::Tracking::recorded;
  tensor_.impl()->stamp = {node_.tape_->serial_, value_};
}

bool Saved::kept() const { return tensor_.defined() || (packed_ && packed_->object); }

const Tensor& Saved::get() const {
  if (!kept())
    throw StateError(node_.operation_,
                     "saved tensor \"" + std::string(name_) + "\" was not kept or was freed");
  if (packed_) {
    if (!tensor_.defined()) unpack();
    return tensor_;
  }
  const std::uint64_t now = tensor_.storage()->version();
  if (now != version_)
    throw StateError(node_.operation_,
                     "saved tensor \"" + std::string(name_) + "\", " + describe(tensor_) +
                         ", was written to after it was saved: it was version " +
                         std::to_string(version_) + " and is version " + std::to_string(now));
  return tensor_;
}

void Saved::drop_unpacked() {
  if (packed_) tensor_ = Tensor();
}

void Saved::release() {
  tensor_ = Tensor();
  if (packed_) packed_->object.reset();
}

Shape Node::input_shape(std::size_t input) const { return tape_->shape_of(inputs()[input].value); }

Strides Node::input_strides(std::size_t input) const {
  return tape_->strides_of(inputs()[input].value);
}

DType Node::input_dtype(std::size_t input) const {
  return tape_->values_[inputs()[input].value].dtype;
}

void Node::release_saved() {
  for (Saved* saved = first_saved_; saved; saved = saved->next_) saved->release();
}

void Node::drop_unpacked() {
  for (Saved* saved = first_saved_; saved; saved = saved->next_) saved->drop_unpacked();
}

bool Node::is_planned() const {
  if (runs_in_any_dtype()) return false;
  const auto stores = [&](std::uint32_t value) {
    return is_storage_only(tape_->values_[value].dtype);
  };
  const std::span<const Edge> read = inputs();
  return stores(output_) || std::any_of(read.begin(), read.end(),
                                        [&](const Edge& edge) { return stores(edge.value); });
}

}  // namespace tapehead
