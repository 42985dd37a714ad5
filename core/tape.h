// Tape: records operations while it lives, and walks them in reverse to get gradients.
//
//     Tape tape;
//     Tensor loss = cross_entropy(model(x), target);
//     Gradients g = tape.gradient(loss, model.parameters());
//
// The record is a list in execution order (a Wengert list), so the backward pass is a loop from its
// end to its beginning: no recursion, no sorting, no cycles. A tape belongs to the thread that made
// it, and is destroyed on it (on another, its destruction ends the program); the innermost open
// tape of a thread records. Tapes of different threads share nothing but leaves, which they only
// read.
#pragma once

#include <tapehead/core/gradients.h>
#include <tapehead/core/graph.h>
#include <tapehead/core/node.h>
#include <tapehead/core/saved_hooks.h>
#include <tapehead/core/tensor.h>
#include <tapehead/core/thread_scope.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tapehead {

/// Called with a leaf and its gradient, which is undefined when y does not depend on the leaf.
using LeafHook = std::function<void(const Tensor& leaf, const Tensor& gradient)>;

/// What a gradient call leaves behind.
struct GradientOptions {
  /// Record the reverse walk on the same tape, so that the gradients can be differentiated again.
  /// Implies keep.
  bool create_graph = false;
  /// Keep the record (and its saved tensors) for another call. Without it the call consumes
  /// everything recorded so far, also when it ends with an error.
  bool keep = false;
  /// Called once for each leaf of wrt, whether y depends on it or not, as soon as its gradient is
  /// complete: when the walk has passed the first operation that used the leaf, and the rules of
  /// earlier ones are still to run. So leaves come in reverse order of their first use, after those
  /// that no operation used. The gradient is the one that the call returns: the hook may write to
  /// it, and keeps no handle. What it computes is not recorded; what it throws ends the call as an
  /// error of a rule does. StateError together with create_graph.
  LeafHook on_complete = {};
};

/// The record of what a thread computes while it lives, and the walk back.
class Tape {
 public:
  /// Records on this thread from here on.
  Tape();
  /// A tape that records operations and keeps none of their tensors, to find out what a computation
  /// does: gradient() is a StateError.
  struct SaveNothing {};
  /// Records and keeps nothing.
  explicit Tape(SaveNothing);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Gradients of y with respect to each tensor of `wrt`: leaves, or results recorded on this tape.
  /// `seed` is the gradient of y (its shape and dtype); it may be left out when y has one element,
  /// and is then 1.
  ///
  /// ShapeError: no seed for a y of several elements, or a seed of another shape.
  /// StateError: y or an entry of wrt is a constant or belongs to another tape; the record of y was
  /// consumed by an earlier call; a saved tensor was written to; another thread; create_graph while
  /// this tape is paused or not the innermost, or with on_complete; a call from within a rule of
  /// this tape, or from a hook.
  Gradients gradient(const Tensor& y, std::span<const Tensor> wrt, Tensor seed = {},
                     const GradientOptions& options = {});
  /// The same with wrt in braces: gradient(y, {w, b}).
  Gradients gradient(const Tensor& y, std::initializer_list<Tensor> wrt, Tensor seed = {},
                     const GradientOptions& options = {}) {
    return gradient(y, std::span(wrt.begin(), wrt.size()), std::move(seed), options);
  }

  /// The same for the sum over k of sum(ys[k] * seeds[k]), in one walk. `seeds` is empty (every y
  /// has one element) or has one entry for each y; an undefined seed feeds nothing into its y.
  Gradients gradient(std::span<const Tensor> ys, std::span<const Tensor> wrt,
                     std::span<const Tensor> seeds, const GradientOptions& options = {});

  /// Operations recorded so far, consumed ones included.
  std::size_t size() const { return nodes_.size(); }

  /// The leaves that recorded operations used and gradient calls named so far, each once.
  const std::vector<Tensor>& leaves() const { return leaves_; }

  /// Those of leaves() that y depends on by recorded operations; none when y is a constant.
  /// StateError when y belongs to another tape.
  std::vector<Tensor> leaves_of(const Tensor& y);

  /// Floating-point operations of the matrix products recorded so far; largest_count
  /// (core/count.h) where they do not fit in 63 bits.
  std::int64_t flops() const;

  /// Whether one of the operations recorded so far is planned, not proven (Node::is_planned).
  bool has_planned() const;

  /// What one recorded operation was, for comparing computations. Equal digests mean, but for
  /// chance, the same operation with the same attributes, a result of the same dtype and shape, and
  /// the same operations and leaves (by the order of their first use) as inputs.
  struct Digest {
    const char* operation;  ///< its name
    std::uint64_t hash;     ///< of all the rest
    /// By hash.
    bool operator==(const Digest& other) const { return hash == other.hash; }
  };
  /// One for each operation recorded so far, in order, and one for which of their results, or which
  /// leaf, y is. Constants have no place in it: which of them an operation read does not show.
  std::vector<Digest> digests(const Tensor& y);

  /// Everything recorded so far as plain data, with what was saved (also what a gradient call has
  /// freed since). StateError on another thread than the tape's.
  Graph graph() const;

  /// The tape that records on this thread now; null when none is open or recording is paused.
  static Tape* recording();

  /// Whether a Pause lives on this thread (and no tape was opened below it).
  static bool paused();

  /// Whether a gradient call of this thread is running: what is computed now is part of a rule.
  static bool walking();

  /// The user's no-grad scope: while it lives nothing is recorded on this thread, and results are
  /// constants.
  class Pause : public ThreadScope<Pause> {
   public:
    Pause();
    ~Pause();

   private:
    friend class Tape;

    static bool lives_under(std::uint64_t tape);

    std::uint64_t tape_;  // the serial of the innermost tape when it began, 0 without one
  };

 private:
  friend class Node;
  friend class Saved;
  friend class Recorder;
  friend class Ledger;
  class Walk;
  class Reading;
  class Snapshot;

  // One row of the table of values. Sizes and strides stand in dims_, so that a row stays small.
  struct ValueRow {
    std::uint64_t storage = 0;
    std::int64_t storage_bytes = 0;
    std::int64_t offset = 0;
    std::size_t dims = 0;        // where its sizes, then its strides, start in dims_
    std::int64_t producer = -1;  // node index
    std::uint8_t rank = 0;
    DType dtype = DType::f32;
    Category category = Category::transient;
    bool leaf = false;
  };

  friend void require_no_gradient(const char*, std::initializer_list<const Tensor*>);
  friend Tensor mark_unrecorded(Tensor, std::span<const Tensor* const>);

  // What an input is to this tape; its row is filled in only when a gradient can flow to it.
  Edge resolve(const char* operation, const Tensor& x);
  std::uint32_t tracked_value(const char* role, const Tensor& x);
  std::uint32_t value_of(const Tensor& x);
  std::uint32_t value_of_leaf(const Tensor& leaf);
  void make_room_for_a_node();
  std::uint32_t add_value(const Tensor& x, std::int64_t producer);
  bool was_closed_at_birth(std::uint64_t serial) const;
  static bool is_open(std::uint64_t serial);
  [[noreturn]] void reject_foreign(const char* operation, const Tensor& x) const;
  // Which values those of `ys` were computed from by the nodes from `first` on, themselves
  // included.
  std::vector<bool> reached_from(std::span<const std::uint32_t> ys, std::size_t first) const;
  PackingTable& packings();
  // The graph, and what process-wide ids its storages have.
  Graph snapshot(std::vector<std::uint64_t>& storage_ids) const;
  Shape shape_of(std::uint32_t value) const;
  Strides strides_of(std::uint32_t value) const;
  void check_own_thread(const char* operation) const;

  std::vector<std::uint64_t> open_at_birth_;  // before serial_, whose making fills it
  const std::uint64_t serial_;
  const void* const thread_;  // the address of something that its thread has for itself
  Tape* outer_;
  bool saves_nothing_ = false;
  bool being_walked_ = false;

  std::vector<std::unique_ptr<Node>> nodes_;
  std::size_t consumed_ = 0;  // nodes before this index have given up what they saved
  std::vector<Edge> edges_;   // the inputs of all nodes
  std::vector<ValueRow> values_;
  std::vector<std::int64_t> dims_;  // sizes and strides of all values
  std::unordered_map<std::uint32_t, std::string> names_;
  std::unordered_map<const detail::TensorImpl*, std::uint32_t> leaf_values_;
  std::unique_ptr<PackingTable> packings_;  // made when hooks pack something
  std::vector<Tensor> leaves_;              // keeps the keys of leaf_values_ alive
};

/// One value and its gradients, on a tape of their own: y = f(), then y's gradients.
struct ValueAndGradients {
  Tensor value;         ///< detached
  Gradients gradients;  ///< as gradient() returns them
};
/// Runs f under a tape. Errors are those of f and of Tape::gradient.
template <class F>
ValueAndGradients value_and_grad(F&& f, std::span<const Tensor> wrt) {
  Tape tape;
  const Tensor y = f();
  Gradients gradients = tape.gradient(y, wrt);
  return {y.detach(), std::move(gradients)};
}

}  // namespace tapehead
