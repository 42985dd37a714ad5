// The reverse walk: Tape::gradient.
#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/core/testing.h>

#include <algorithm>

namespace tapehead {
namespace {

Tensor seed_of_one(const Tensor& y) {
  if (y.numel() != 1)
    throw ShapeError("gradient", "y " + describe(y) +
                                     " has not exactly one element, so its gradient (the seed) "
                                     "must be given");
  return filled("gradient", y.shape(), y.dtype(), 1.0);
}

struct Walking : ThreadScope<Walking> {
  static bool active() { return innermost() != nullptr; }
};

void check_seed(const Tensor& y, const Tensor& seed) {
  check_same_dtype("gradient", y, seed, "y", "seed");
  if (y.shape() != seed.shape())
    throw ShapeError("gradient",
                     "y " + describe(y) + " and seed " + describe(seed) + " must have one shape");
}

}  // namespace

// What a rule unpacked of its saved tensors goes when the rule ends, well or not.
class Tape::Reading {
 public:
  explicit Reading(Node& node) : node_(node) {}
  ~Reading() { node_.drop_unpacked(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  Node& node_;
};

class Tape::Walk {
 public:
  Walk(Tape& tape, const GradientOptions& options)
      : tape_(tape),
        keep_(options.keep || options.create_graph),
        create_graph_(options.create_graph),
        on_complete_(options.on_complete),
        end_(tape.nodes_.size()),
        needed_(tape.values_.size(), false),
        wanted_(tape.values_.size(), false),
        partials_(tape.values_.size()) {}

  // A walk that does not keep the record consumes it, whether it ends well or not. One that never
  // began, because an argument was wrong, leaves it.
  ~Walk() {
    if (began_) tape_.being_walked_ = false;
    if (keep_ || !began_) return;
    for (std::size_t i = tape_.consumed_; i < end_; ++i) tape_.nodes_[i]->release_saved();
    tape_.consumed_ = end_;
  }

  void want(std::uint32_t value) { needed_[value] = wanted_[value] = true; }

  // Plans when the hook, if there is one, is called with each leaf of `wrt`: after the first of the
  // walked nodes that uses it, the last that adds to its gradient; before all of them if none does.
  void plan_hook(std::span<const Tensor> wrt, std::span<const std::uint32_t> values) {
    if (!on_complete_) return;
    std::vector<std::size_t> first_use(tape_.values_.size(), end_);
    for (std::size_t i = end_; i-- > tape_.consumed_;)
      for (const Edge edge : tape_.nodes_[i]->inputs())
        if (edge.tracked) first_use[edge.value] = i;
    std::vector<bool> planned(tape_.values_.size(), false);
    for (std::size_t k = 0; k < wrt.size(); ++k) {
      if (!wrt[k].is_leaf() || planned[values[k]]) continue;
      planned[values[k]] = true;
      completions_.push_back({first_use[values[k]], values[k], &wrt[k]});
    }
    std::stable_sort(completions_.begin(), completions_.end(),
                     [](const Completion& a, const Completion& b) { return a.node > b.node; });
  }

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
    const std::vector<bool> reached = tape_.reached_from(ys, tape_.consumed_);
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
    } else if (create_graph_ || NanGuard::watching()) {
      partial = accumulate(partial, gradient);
    } else {
      if (!is_exclusive(partial)) {
        if (!is_exclusive(gradient)) gradient = copied("accumulate", gradient);
        std::swap(partial, gradient);
      }
      launch([&] { add_into(partial.any_view(), gradient.any_view()); });
    }
  }

  void run() {
    began_ = true;
    const Walking walking;
    tape_.being_walked_ = true;
    call_hook_down_to(end_);
    for (std::size_t i = end_; i-- > tape_.consumed_;) {
      // A rule that is being recorded grows the list; the node itself does not move.
      Node& node = *tape_.nodes_[i];
      const bool ran = partials_[node.output_].defined() && needed_[node.output_];
      if (ran) run_rule(node);
      if (!keep_) node.release_saved();
      if (ran && Ledger::watching()) Ledger::end_step(Graph::Phase::backward, tape_, node, i);
      call_hook_down_to(i);
    }
  }

  // A gradient to hand out: row-major and nobody else's, so that its owner may write to it. (It may
  // have come through as the seed, or as a view of a constant.) Recorded gradients cannot be
  // written to, so they may share.
  Tensor take_result(std::uint32_t value) {
    Tensor gradient = std::move(partials_[value]);
    if (!gradient.defined()) return gradient;
    const bool recorded = create_graph_ && gradient.requires_grad();
    if (!recorded && !(is_exclusive(gradient) && gradient.is_contiguous()))
      gradient = copied("gradient", gradient);
    if (gradient.storage()->category() == Category::transient)
      gradient.storage()->set_category(Category::gradient);
    return gradient;
  }

 private:
  struct Completion {
    std::size_t node;  // when the walk has passed it
    std::uint32_t value;
    const Tensor* leaf;
  };

  void call_hook_down_to(std::size_t node) {
    for (; called_ < completions_.size() && completions_[called_].node >= node; ++called_) {
      const Completion& next = completions_[called_];
      Tensor gradient = take_result(next.value);
      on_complete_(*next.leaf, gradient);
      partials_[next.value] = std::move(gradient);
    }
  }

  void run_rule(Node& node) {
    Tensor& gradient = partials_[node.output_];
    // The rule gets the only handle, so that it can work in place; the gradient of an intermediate
    // that was asked for must survive its own rule.
    Tensor g = wanted_[node.output_] ? gradient : std::move(gradient);
    const ModuleScope::Restore scope(*node.path_);
    NanGuard::Rule watched(node, g, partials_);
    const Reading reading(node);
    const Wanted wanted(node, needed_, create_graph_ ? nullptr : &partials_);
    testing::RuleHook* hook = testing::RuleHook::current();
    Grads gradients =
        hook ? hook->run(node, std::move(g), wanted) : node.backward(std::move(g), wanted);
    watched.check(wanted, gradients);
    check_nothing_beyond_inputs(node, gradients);
    for (std::size_t k = 0; k < node.inputs().size(); ++k) {
      if (!wanted[k]) continue;
      check(node, k, gradients);
      add(node.inputs()[k].value, std::move(gradients[k]));
    }
  }

  // Operands that a call left out may stand at the end, undefined.
  static void check_nothing_beyond_inputs(const Node& node, Grads& gradients) {
    const std::size_t inputs = node.inputs().size();
    for (std::size_t k = inputs; k < gradients.size(); ++k)
      if (gradients[k].defined())
        throw StateError(node.operation(), "the backward rule returned a gradient of input " +
                                               std::to_string(k) + ", and there are " +
                                               std::to_string(inputs) + " inputs");
  }

  // A rule that returns a gradient of the wrong kind is an error of the rule, not of its caller.
  void check(const Node& node, std::size_t k, Grads& gradients) const {
    const std::uint32_t value = node.inputs()[k].value;
    const bool is_there = k < gradients.size() && gradients[k].defined();
    if (is_there && gradients[k].dtype() == tape_.values_[value].dtype &&
        gradients[k].shape() == tape_.shape_of(value))
      return;
    reject(node, k, is_there ? gradients[k] : Tensor());
  }

  [[noreturn, gnu::cold]] void reject(const Node& node, std::size_t k, const Tensor& got) const {
    const std::uint32_t value = node.inputs()[k].value;
    const std::string input = "the backward rule's gradient of input " + std::to_string(k);
    if (!got.defined()) throw StateError(node.operation(), input + " is missing");
    throw StateError(node.operation(), input + " is " + describe(got) + ", the input is " +
                                           std::string(to_string(tape_.values_[value].dtype)) +
                                           " " + to_string(tape_.shape_of(value)));
  }

  Tape& tape_;
  const bool keep_, create_graph_;
  const LeafHook& on_complete_;
  bool began_ = false;
  const std::size_t end_;     // nodes recorded during the walk are not walked
  std::vector<bool> needed_;  // the gradient of this value leads to a wanted one
  std::vector<bool> wanted_;  // the gradient of this value was asked for
  std::vector<Tensor> partials_;
  std::vector<Completion> completions_;  // in the order of the calls
  std::size_t called_ = 0;
};

bool Tape::walking() { return Walking::active(); }

Gradients Tape::gradient(const Tensor& y, std::span<const Tensor> wrt, Tensor seed,
                         const GradientOptions& options) {
  if (!seed.defined()) return gradient(std::span(&y, 1), wrt, {}, options);
  return gradient(std::span(&y, 1), wrt, std::span(&seed, 1), options);
}

Gradients Tape::gradient(std::span<const Tensor> ys, std::span<const Tensor> wrt,
                         std::span<const Tensor> seeds, const GradientOptions& options) {
  check_own_thread("gradient");
  if (being_walked_)
    throw StateError("gradient",
                     "this tape's gradient is being computed; a rule, or a hook, cannot walk the "
                     "tape that it is a part of");
  if (saves_nothing_)
    throw StateError("gradient", "this tape keeps no tensors for a backward pass");
  if (options.create_graph && recording() != this)
    throw StateError("gradient",
                     "create_graph records on this tape, which is paused or not the innermost");
  if (options.create_graph && options.on_complete)
    throw StateError("gradient",
                     "on_complete hands out gradients that may be written to, and those of "
                     "create_graph are recorded");
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
  walk.plan_hook(wrt, wrt_values);
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
  check_defined("gradient", role, x);
  const Edge edge = resolve("gradient", x);
  if (!edge.tracked)
    throw StateError("gradient", std::string(role) + " " + describe(x) +
                                     " is a constant: it was not computed from a leaf under this "
                                     "tape, and is no leaf");
  return edge.value;
}

}  // namespace tapehead
