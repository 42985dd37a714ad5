// record: the only door to the tape.
#pragma once

#include <tapehead/core/nan_guard.h>
#include <tapehead/core/node.h>
#include <tapehead/core/tape.h>

#include <initializer_list>
#include <memory>
#include <span>

namespace tapehead {

/// Puts one operation on the recording tape, or leaves no trace. Used through record().
class Recorder {
 public:
  /// Looks at each input (StateError for one that belongs to another open tape, to a tape that
  /// closed meanwhile, or that lost its gradient by being computed outside any tape). When one of
  /// them wants a gradient, stamps y, so that a node that saves its own output saves it with its
  /// place on the tape.
  Recorder(Node& node, Tensor& y, std::span<const Tensor* const> inputs);
  /// Takes the stamp back unless the operation was committed.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Whether a gradient can flow through this operation.
  explicit operator bool() const { return stamped_; }
  void commit(std::unique_ptr<Node> node) noexcept;

 private:
  bool add_edges(const char* operation, std::span<const Tensor* const> inputs);

  Tape& tape_;
  Tensor& y_;
  const std::size_t first_edge_;
  bool stamped_ = false;
  bool committed_ = false;
};

/// What becomes of a result while nothing records: a constant or, when it was computed from a leaf
/// with no tape open and no Pause, untracked.
Tensor mark_unrecorded(Tensor y, std::span<const Tensor* const> inputs);

/// A NanGuard's look at a result that nothing records: the node is made for its attributes alone.
template <class NodeType, class Setup>
void examine_unrecorded(const Tensor& y, std::span<const Tensor* const> inputs, Setup& setup) {
  NodeType node;
  setup(node);
  NanGuard::examine(node, y, inputs);
}

/// Records the operation that computed `y` from `inputs` and returns y. When a tape records on this
/// thread and one of the inputs wants a gradient, a NodeType is made, and `setup(node)` fills in
/// its attributes and calls save() on its saved tensors. NanError where a NanGuard finds that y is
/// the first NaN or infinity; for a look at a result that is not recorded, setup runs on a node
/// without a tape, where save() does nothing.
template <class NodeType, class Setup>
Tensor record(Tensor y, std::span<const Tensor* const> inputs, Setup&& setup) {
  static_assert(std::is_base_of_v<Node, NodeType>);
  const bool suspicious = NanGuard::suspects(y, inputs);
  if (!Tape::recording()) {
    if (suspicious) examine_unrecorded<NodeType>(y, inputs, setup);
    return mark_unrecorded(std::move(y), inputs);
  }
  auto node = std::make_unique<NodeType>();
  Recorder recorder(*node, y, inputs);
  if (recorder || suspicious) setup(*node);
  if (suspicious) NanGuard::examine(*node, y, inputs);
  if (recorder) recorder.commit(std::move(node));
  return y;
}
/// The same with the inputs in braces: record<LogNode>(y, {&x}, ...).
template <class NodeType, class Setup>
Tensor record(Tensor y, std::initializer_list<const Tensor*> inputs, Setup&& setup) {
  return record<NodeType>(std::move(y), std::span(inputs.begin(), inputs.size()),
                          std::forward<Setup>(setup));
}

/// Whether an operation on `x` would be recorded now: its rule may read x, so x is not to be worked
/// on in place.
inline bool will_record(const Tensor& x) { return Tape::recording() && x.requires_grad(); }

/// For an operation with a floating result that has no backward rule: StateError, naming it, when a
/// gradient would have to flow through. Nothing detaches by accident.
void require_no_gradient(const char* operation, std::initializer_list<const Tensor*> inputs);

}  // namespace tapehead
