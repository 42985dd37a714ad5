// Node: one recorded operation, with the tensors that its backward rule will need.
//
// An operation derives from Node, declares each saved tensor as a member that registers itself, and
// writes its rule. The rule is written with operations, so it can be recorded and differentiated
// again. A node has one output: operations with several results are composed (split is narrows).
//
//     struct SoftmaxNode final : Node {
//       SoftmaxNode() : Node("softmax") {}
//       Saved y{*this, "y", {0}, "dx = y * (g - sum(g * y))"};
//       std::int64_t dim = 0;
//       Grads backward(Tensor g, const Wanted&) override {
//         return {softmax_backward(std::move(g), y.get(), dim)};
//       }
//     };
//
// Attributes of a node are plain numbers, never data: a dry run passes through them.
// A node belongs to its tape and its tape's thread.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/core/pool.h>
#include <tapehead/core/tensor.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead {

class NanGuard;
class Node;
class Tape;
struct PackedSlot;
class SavedTensorHooks;
namespace testing {
class RuleHook;
}

/// The gradients that a rule returns, one for each input in order; undefined where none is wanted.
class Grads {
 public:
  /// One for each input, in order: `return {dx, dw};`.
  template <class... T>
  requires(std::is_same_v<std::remove_cvref_t<T>, Tensor>&&...) Grads(T&&... gradients)
      : size_(sizeof...(T)) {  // NOLINT: `return {dx, dw};` is the point
    static_assert(sizeof...(T) <= inline_capacity);
    std::size_t i = 0;
    ((inline_[i++] = std::forward<T>(gradients)), ...);
  }
  /// The same for operations with any number of inputs.
  explicit Grads(std::vector<Tensor> gradients)
      : size_(gradients.size()), many_(std::move(gradients)) {}

  /// How many there are.
  std::size_t size() const { return size_; }
  /// The gradient of input i.
  Tensor& operator[](std::size_t i) { return many_.empty() ? inline_[i] : many_[i]; }

 private:
  static constexpr std::size_t inline_capacity = 6;
  std::size_t size_;
  std::array<Tensor, inline_capacity> inline_;
  std::vector<Tensor> many_;
};

/// Which inputs' gradients this call of a rule must return.
class Wanted {
 public:
  /// For the reverse walk.
  Wanted(const Node& node, const std::vector<bool>& needed_values, std::vector<Tensor>* partials)
      : node_(node), needed_(needed_values), partials_(partials) {}

  /// Whether the gradient of input i is wanted. Rules need not ask: what is not wanted is dropped.
  /// They ask to save the work.
  bool operator[](std::size_t i) const;

  /// The gradient of input i summed so far from later uses, moved out to be added to in place; the
  /// rule must then return it as gradient i, its own part included. Undefined when there is none,
  /// when somebody else can see it, or when the rule is being recorded: then return the own part.
  Tensor take_partial(std::size_t i) const;

 private:
  const Node& node_;
  const std::vector<bool>& needed_;
  std::vector<Tensor>* partials_;
};

/// A saved tensor: a named member of a node, with the reason why it is kept.
class Saved {
 public:
  /// `for_inputs`: the inputs whose gradients read this tensor, up to number 31 (StateError). It is
  /// kept only when one of those gradients is wanted. `reason`: the formula that reads it. Both
  /// strings live as long as the process.
  Saved(Node& node, const char* name, std::initializer_list<int> for_inputs, const char* reason);
  /// Read by the gradients of all inputs, however many there are.
  Saved(Node& node, const char* name, const char* reason);

  /// Of a slot that the rule scales whole rows by, or takes exponentials of: hooks that round must
  /// leave it alone, for a small error in it is a large one in the gradient.
  struct Exact {};
  /// As the first, for an exact slot.
  Saved(Node& node, const char* name, std::initializer_list<int> for_inputs, const char* reason,
        Exact);
  ~Saved();
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  /// Keeps `x` for the backward pass (shares its storage) if a gradient that reads it is wanted, or
  /// what the thread's SavedTensorHooks pack it as. Only while the node is being recorded; on a
  /// node without a tape it does nothing.
  void save(const Tensor& x);

  /// Whether save() kept something and it was not released since.
  bool kept() const;

  /// The saved tensor, until the rule returns. StateError when it was written to after it was
  /// saved, naming the operation, the slot and both versions; what PackedTensor::unpack throws.
  const Tensor& get() const;

  /// As get(), or undefined where nothing is kept: of an operand that the caller may leave out.
  Tensor get_or_none() const { return kept() ? get() : Tensor(); }

  /// The name of the slot.
  const char* name() const { return name_; }
  /// The formula that reads it.
  const char* reason() const { return reason_; }

 private:
  friend class NanGuard;
  friend class Tape;
  friend class Node;
  friend class testing::RuleHook;

  bool is_read_for(std::size_t input) const;
  bool pack(SavedTensorHooks& hooks, const Tensor& x);
  void unpack() const;
  void drop_unpacked();
  void release();

  static constexpr std::uint32_t all_inputs = ~std::uint32_t{0};
  static constexpr int last_listed_input = 31;

  Node& node_;
  Saved* next_ = nullptr;
  const char* name_;
  const char* reason_;
  std::uint32_t for_inputs_ = 0;  // bit i: the gradient of input i reads it
  std::uint32_t value_ = 0;       // its row in the tape's table of values
  bool was_saved_ = false;        // stays true after release, for the graph
  bool exact_ = false;
  bool tracked_ = false;  // a gradient flowed to what was packed
  std::uint64_t version_ = 0;
  mutable Tensor tensor_;  // of a packed slot: what was unpacked, while a rule reads it
  std::unique_ptr<PackedSlot> packed_;
};

/// An input of a recorded operation: its row in the tape's table of values.
struct Edge {
  std::uint32_t value = 0;
  bool tracked = false;  // a gradient can flow to it
};

/// A recorded operation: what it saved, and its rule.
class Node : public Pooled {
 public:
  /// `operation`: the name in graphs and errors; lives as long as the process.
  explicit Node(const char* operation) : operation_(operation) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// The rule: from `g`, the gradient of the output (its shape and dtype), the gradients of the
  /// inputs. `g` comes by value so that the rule can pass it on to be worked on in place.
  virtual Grads backward(Tensor g, const Wanted& wanted) = 0;

  /// The non-tensor arguments, for graphs.
  virtual std::vector<Graph::Attribute> attributes() const { return {}; }

  /// Whether the operation only moves or converts values, so that a real run takes bf16 and f16.
  virtual bool runs_in_any_dtype() const { return false; }

  /// Whether a dry run let pass what a real one refuses: computing in bf16 or f16. What the graph
  /// says of it is planned, not proven.
  virtual bool is_planned() const;

  /// Floating-point operations of the forward computation that are worth counting: matrix products,
  /// two for each multiply-add. Elementwise work is not counted here. largest_count (core/count.h)
  /// where they do not fit in 63 bits, as those of a dry run may not.
  virtual std::int64_t flops() const { return 0; }

  /// The name in graphs and errors.
  const char* operation() const { return operation_; }
  /// The path of the module that recorded it.
  const std::string& module() const { return *path_; }
  /// Valid until the tape records another operation.
  std::span<const Edge> inputs() const;
  /// Whether a gradient can flow to this input.
  bool wants(std::size_t input) const { return inputs()[input].tracked; }
  /// Shape, strides and dtype of an input, for rules that need them though not its values.
  Shape input_shape(std::size_t input) const;
  /// Strides of an input, in elements.
  Strides input_strides(std::size_t input) const;
  /// The type of its elements.
  DType input_dtype(std::size_t input) const;

 private:
  friend class NanGuard;
  friend class Tape;
  friend class Saved;
  friend class Wanted;
  friend class Recorder;
  friend class testing::RuleHook;

  void release_saved();
  void drop_unpacked();

  const char* operation_;
  Tape* tape_ = nullptr;
  const std::string* path_ = nullptr;  // interned module path
  std::uint32_t first_edge_ = 0;       // its inputs stand in the tape's list of edges from here
  std::uint32_t input_count_ = 0;
  std::uint32_t output_ = 0;
  Saved* first_saved_ = nullptr;
  Saved* last_saved_ = nullptr;
};

}  // namespace tapehead
