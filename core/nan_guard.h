// NanGuard: which operation made the first NaN or infinity, and from what.
//
//     NanGuard guard;                    // watches this thread until it is destroyed
//     Tape tape;
//     Tensor loss = cross_entropy(model(x), target);
//     tape.gradient(loss, model.parameters());
//
// throws a NanError at the operation that turned numbers into a NaN or an infinity:
//
//     softmax: NaN at (0, 1, 0) of the result f32 (1, 2, 2), though no operand holds a NaN: input 0
//     f32 (1, 2, 2) is -inf there (from -inf to 0.5); row (0, 1, :) of input 0 is -inf throughout:
//     it sees nothing [in blocks.0.attn]
//
// An alarm is a NaN that an operation made from operands without a NaN, or an infinity that it made
// from finite numbers. It is none when one of the operation's plain arguments is itself infinite
// (or a NaN): masked_fill(x, mask, -inf) means it. So the infinities of a mask may travel, and the
// NaN in which they end is an alarm. A NaN that comes from outside, in data or a parameter, is laid
// at no operation's door.
//
// Forward, every floating result of an operation that has a backward rule is looked at, with or
// without a tape; in the backward pass every gradient that a rule returns, which was made from the
// gradient of the operation's result and from what the operation saved. Sums of the gradients of a
// value that was used more than once stand under the name of the operation "accumulate". What
// optimizers and other writers do is not looked at.
//
// A guard changes no result, to the bit. It costs a pass over every result, and the memory that
// operations save elsewhere by working in place. Without one, an operation pays the test of a
// thread-local pointer. A dry run has no values, so a guard does nothing in it.
#pragma once

#include <tapehead/core/error.h>
#include <tapehead/core/tensor.h>
#include <tapehead/core/thread_scope.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tapehead {

class Grads;
class Node;
class Wanted;

/// One alarm.
struct NanReport {
  /// What the operation read: an input or, in the backward pass, the gradient of its result or a
  /// tensor that it saved.
  struct Operand {
    std::string name;             ///< "input 0"; "g" and the name of the slot in the backward pass
    std::string tensor;           ///< "f32 (2, 3)", as errors quote operands
    std::optional<double> there;  ///< its value at the element, when it broadcasts to the result
    double lowest = 0;            ///< of its elements that are no NaN; above highest without any
    double highest = 0;           ///< of those, too
  };

  std::string operation;    ///< in the backward pass the one whose rule it was
  std::string module;       ///< dotted path; empty outside any module
  std::int64_t input = -1;  ///< the input whose gradient it was; -1 in the forward pass
  std::string tensor;       ///< the result or the gradient, as errors quote operands
  Dims element;             ///< the position in it: of the first NaN, else of the first infinity
  double value = 0;         ///< NaN or an infinity
  std::vector<Operand> operands;  ///< what it read
  /// For a NaN of an operation along a dim (softmax): that dim, when all elements of input 0 along
  /// it are -inf where the NaN stands, so that the row sees nothing.
  std::optional<std::int64_t> empty_row_dim;

  /// Whether a rule made it.
  bool is_backward() const { return input >= 0; }
};

/// The report in words, as NanError has it.
std::string to_string(const NanReport& report);

/// What a guard throws; its kind is ErrorKind::nan.
class NanError : public Error {
 public:
  /// With the report in words as its text.
  explicit NanError(std::shared_ptr<const NanReport> report);
  /// What the guard found.
  const NanReport& report() const { return *report_; }

 private:
  std::shared_ptr<const NanReport> report_;
};

/// What a guard does at its alarm.
struct NanGuardOptions {
  /// Throw a NanError at the alarm. Else the computation goes on, and report() has the alarm.
  bool raise = true;
};

/// Watches the operations of the thread that made it while it lives. Of nested guards the innermost
/// one watches. A guard reports once: after its first alarm it watches no more.
class NanGuard : public ThreadScope<NanGuard> {
 public:
  /// Watches from here on.
  explicit NanGuard(NanGuardOptions options = {}) : options_(options) {}
  ~NanGuard();

  /// The alarm; null when there was none.
  const NanReport* report() const { return report_.get(); }

  /// Whether a guard of this thread waits for its alarm, outside any dry run: then operations do
  /// not work in place, for the report needs their inputs.
  static bool watching() { return innermost() && innermost()->is_waiting(); }

  /// For record(): whether y deserves a look, which examine() takes.
  static bool suspects(const Tensor& y, std::span<const Tensor* const> inputs) {
    return innermost() && innermost()->is_suspicious(y, inputs);
  }
  /// For record(): looks at y, which `node` says how it was computed. NanError.
  static void examine(const Node& node, const Tensor& y, std::span<const Tensor* const> inputs);

  /// For the reverse walk: one rule under watch. The operations inside it are not looked at one by
  /// one, but the gradients that it returns.
  class Rule : public ThreadScope<Rule> {
   public:
    /// Before the rule runs. `partials`: the gradients of values summed so far, to which it may
    /// add.
    Rule(const Node& node, const Tensor& g, const std::vector<Tensor>& partials) {
      if (watching()) begin(node, g, partials);
    }
    ~Rule() {
      if (guard_) end();
    }

    /// After it: looks at the wanted gradients. NanError.
    void check(const Wanted& wanted, Grads& gradients) {
      if (guard_) examine(wanted, gradients);
    }

   private:
    friend class NanGuard;

    void begin(const Node& node, const Tensor& g, const std::vector<Tensor>& partials);
    void examine(const Wanted& wanted, Grads& gradients);
    void end();

    NanGuard* guard_ = nullptr;  // null, too, when it was destroyed while the rule ran
    const Node* node_ = nullptr;
    Tensor g_;
    std::vector<bool> finite_partials_;  // for each input
  };

 private:
  bool is_waiting() const;
  bool is_suspicious(const Tensor& y, std::span<const Tensor* const> inputs) const;
  void examine_gradient(const Node& node, const Tensor& g, std::size_t input,
                        const Tensor& gradient);
  void raise(NanReport report);

  NanGuardOptions options_;
  int rules_running_ = 0;
  std::shared_ptr<const NanReport> report_;
};

}  // namespace tapehead
