#include <tapehead/core/arithmetic.h>
#include <tapehead/core/node.h>
#include <tapehead/core/tape.h>

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
  for (const int input : for_inputs) for_inputs_ |= 1u << static_cast<unsigned>(input);
  (node.last_saved_ ? node.last_saved_->next_ : node.first_saved_) = this;
  node.last_saved_ = this;
}

void Saved::save(const Tensor& x) {
  if (!node_.tape_) return;  // the node is made for its attributes only
  const std::span<const Edge> inputs = node_.inputs();
  bool wanted = false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    wanted = wanted || (inputs[i].tracked && (for_inputs_ >> i & 1u));
  if (!wanted) return;
  value_ = node_.tape_->value_of(x);
  version_ = x.storage()->version();
  if (x.storage()->category() == Category::transient) x.storage()->set_category(Category::saved);
  tensor_ = x;
  was_saved_ = true;
}

const Tensor& Saved::get() const {
  if (!tensor_.defined())
    throw StateError(node_.operation_,
                     "saved tensor \"" + std::string(name_) + "\" was not kept or was freed");
  const std::uint64_t now = tensor_.storage()->version();
  if (now != version_)
    throw StateError(node_.operation_,
                     "saved tensor \"" + std::string(name_) + "\", " + describe(tensor_) +
                         ", was written to after it was saved: it was version " +
                         std::to_string(version_) + " and is version " + std::to_string(now));
  return tensor_;
}

Shape Node::input_shape(std::size_t input) const { return tape_->shape_of(inputs()[input].value); }

Strides Node::input_strides(std::size_t input) const {
  return tape_->strides_of(inputs()[input].value);
}

DType Node::input_dtype(std::size_t input) const {
  return tape_->values_[inputs()[input].value].dtype;
}

void Node::release_saved() {
  for (Saved* saved = first_saved_; saved; saved = saved->next_) saved->tensor_ = Tensor();
}

}  // namespace tapehead
