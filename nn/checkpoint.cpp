#include <tapehead/core/random.h>
#include <tapehead/core/record.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <bit>
#include <memory>

namespace tapehead::nn {
namespace {

constexpr const char* name = "checkpoint";

using Tensors = std::vector<Tensor>;

// A leaf of the tape inside: an input, which a leaf of its own stood in for, or a parameter.
struct UsedLeaf {
  std::ptrdiff_t input = -1;
  Tensor parameter = {};

  bool is_same(const UsedLeaf& other) const {
    return input == other.input && parameter.is_same(other.parameter);
  }
};

// f, and what it did when it ran first, to do it again.
struct Run {
  Block f;
  std::vector<bool> tracked;  // the inputs for which leaves stand in on the tape inside
  std::vector<Draw> draws;
  std::vector<Tape::Digest> operations;
  std::vector<UsedLeaf> leaves;  // in the order of use
};

// ---- running f on a tape of its own -------------------------------------------------------------

// Leaves of their own even for leaves, so that one that is given twice gets the gradient of each.
Tensors stand_ins(const Run& run, const Tensors& inputs) {
  Tensors inside;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inside.push_back(run.tracked[i] ? stand_in(inputs[i]) : inputs[i]);
  return inside;
}

// Where x stands among `tensors`; -1 if it does not.
std::ptrdiff_t index_of(const Tensors& tensors, const Tensor& x) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& other) { return other.is_same(x); });
  return found == tensors.end() ? -1 : found - tensors.begin();
}
bool holds(const Tensors& tensors, const Tensor& x) { return index_of(tensors, x) >= 0; }

std::vector<UsedLeaf> leaves_used(const Tape& tape, const Tensors& inside) {
  std::vector<UsedLeaf> leaves;
  for (const Tensor& leaf : tape.leaves()) {
    const std::ptrdiff_t input = index_of(inside, leaf);
    leaves.push_back({input, input >= 0 ? Tensor() : leaf});
  }
  return leaves;
}

// What the first run tells of f.
struct FirstRun {
  Tensor y;                  // a constant
  std::vector<bool> inputs;  // which inputs y depends on
  Tensors parameters;        // the other leaves that it depends on
  std::int64_t flops = 0;
  bool planned = false;
};

Tensor call(const Block& f, const Tensors& inputs) {
  Tensor y = f(inputs);
  if (!y.defined()) throw ValueError(name, "the function returned no tensor");
  return y;
}

FirstRun run_first(Run& run, const Tensors& inputs, bool saves_inside) {
  const auto tape =
      saves_inside ? std::make_unique<Tape>() : std::make_unique<Tape>(Tape::SaveNothing{});
  const Tensors inside = stand_ins(run, inputs);
  Tensor y;
  {
    const RecordDraws recording(run.draws);
    y = call(run.f, inside);
  }
  run.operations = tape->digests(y);
  run.leaves = leaves_used(*tape, inside);
  Tensors reached = tape->leaves_of(y);
  FirstRun first{y.detach(), {}, {}, tape->flops(), tape->has_planned()};
  for (const Tensor& x : inside) first.inputs.push_back(holds(reached, x));
  std::erase_if(reached, [&](const Tensor& leaf) { return holds(inside, leaf); });
  first.parameters = std::move(reached);
  return first;
}

[[noreturn]] void reject(const std::string& difference) {
  throw StateError(
      name, "the function did something else in the backward pass than before: " + difference);
}

void check_same_operations(const std::vector<Tape::Digest>& before,
                           const std::vector<Tape::Digest>& now) {
  const auto [first, second] = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
  if (first == before.end() && second == now.end()) return;
  const std::string what = "operation " + std::to_string(first - before.begin()) + " ";
  if (first == before.end()) reject(what + second->operation + " is new");
  if (second == now.end()) reject(what + first->operation + " is missing");
  reject(what + "was " + first->operation + " and is " + second->operation +
         ", or has other attributes, inputs or shapes");
}

// f again, on a tape that nothing was recorded on.
Tensor run_again(const Run& run, Tape& tape, const Tensors& inside) {
  const ReplayDraws replay(run.draws);
  Tensor y = run.f(inside);
  if (!y.defined()) reject("it returned nothing");
  check_same_operations(run.operations, tape.digests(y));
  const std::vector<UsedLeaf> leaves = leaves_used(tape, inside);
  if (!std::equal(leaves.begin(), leaves.end(), run.leaves.begin(), run.leaves.end(),
                  [](const UsedLeaf& a, const UsedLeaf& b) { return a.is_same(b); }))
    reject("it used other inputs or parameters");
  if (!replay.at_end()) reject("it drew fewer random numbers");
  return y;
}

Tensor run_checkpointed(Block f, const Tensors& inputs, bool saves_inside);

// ---- gradients ---------------------------------------------------------------------------------

// The entries of `all` that are marked.
Tensors marked(const Tensors& all, const std::vector<bool>& marks) {
  Tensors some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (marks[i]) some.push_back(all[i]);
  return some;
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The gradients of `wrt`, flattened and joined: one tensor, so that it can be an operation's
// output. f64 holds every dtype exactly, when they are not all one that can be joined.
Tensor flat_gradients(const Gradients& gradients, const Tensors& wrt) {
  const DType first = wrt.front().dtype();
  const bool keeps_dtype =
      !is_storage_only(first) &&
      std::all_of(wrt.begin(), wrt.end(), [&](const Tensor& x) { return x.dtype() == first; });
  Tensors flat;
  for (const Tensor& x : wrt) {
    const Tensor gradient = flatten(gradients[x]);
    flat.push_back(to(gradient, keeps_dtype ? first : DType::f64));
  }
  return cat(flat);
}

class CheckpointNode final : public Node {
 public:
  CheckpointNode() : Node(name) {}

  void set(std::shared_ptr<const Run> run, const FirstRun& first, const Tensors& inputs) {
    run_ = std::move(run);
    parameters_ = first.parameters;
    flops_ = first.flops;
    planned_ = first.planned;
    for (const Tensor& x : inputs) save("input", x);
    for (const UsedLeaf& leaf : run_->leaves)
      if (leaf.parameter.defined()) save("parameter", leaf.parameter);
  }

  Grads backward(Tensor g, const Wanted& wanted) override {
    // The parameters are looked at too, for they must not have been written to.
    Tensors kept;
    for (const auto& saved : saved_) kept.push_back(saved->get());
    kept.resize(run_->tracked.size());
    std::vector<bool> marks;
    for (std::size_t i = 0; i < inputs().size(); ++i) marks.push_back(wanted[i]);
    Tensors some = Tape::recording() ? recorded_gradients(std::move(kept), g, marks)
                                     : plain_gradients(kept, std::move(g), marks);
    Tensors all(marks.size());
    for (std::size_t i = 0, next = 0; i < all.size(); ++i)
      if (marks[i]) all[i] = std::move(some[next++]);
    return Grads(std::move(all));
  }

  std::vector<Graph::Attribute> attributes() const override {
    // The digest stands for what ran inside, also where this checkpoint is itself inside another.
    std::uint64_t digest = 0;
    for (const Tape::Digest& operation : run_->operations)
      digest = std::rotl(digest, 5) + operation.hash;
    for (const UsedLeaf& leaf : run_->leaves)
      digest = std::rotl(digest, 5) + static_cast<std::uint64_t>(leaf.input);
    return {{"operations", static_cast<std::int64_t>(run_->operations.size()) - 1},
            {"digest", static_cast<std::int64_t>(digest)}};
  }
  std::int64_t flops() const override { return flops_; }
  bool is_planned() const override { return planned_; }

 private:
  void save(const char* slot, const Tensor& x) {
    saved_.push_back(std::make_unique<Saved>(*this, slot, "the function runs again"));
    saved_.back()->save(x);
  }

  // The gradients of the marked inputs of the node.
  Tensors plain_gradients(const Tensors& kept, Tensor g, const std::vector<bool>& marks) const {
    Tape tape;
    const Tensors inside = stand_ins(*run_, kept);
    const Tensor y = run_again(*run_, tape, inside);
    const Tensors wrt = marked(joined(inside, parameters_), marks);
    const Gradients gradients = tape.gradient(y, wrt, std::move(g));
    Tensors result;
    for (const Tensor& x : wrt) result.push_back(as_result(gradients[x]));
    return result;
  }

  // Of a rule: the walk outside knows which of them were asked for, and counts those as gradients.
  static Tensor as_result(Tensor gradient) {
    if (gradient.storage()->category() == Category::gradient)
      gradient.storage()->set_category(Category::transient);
    return gradient;
  }

  // The same while the rule is being recorded: a checkpoint, of f followed by its backward pass.
  Tensors recorded_gradients(Tensors kept, const Tensor& g, const std::vector<bool>& marks) const {
    const auto pull = [run = run_, parameters = parameters_, marks](const Tensors& in) {
      Tape& tape = *Tape::recording();
      Tensors inside(in.begin(), in.end() - 1);
      for (std::size_t i = 0; i < inside.size(); ++i)
        if (run->tracked[i] && !inside[i].is_leaf()) inside[i] = stand_in(inside[i]);
      const Tensor y = run_again(*run, tape, inside);
      const Tensors wrt = marked(joined(inside, parameters), marks);
      return flat_gradients(tape.gradient(y, wrt, in.back(), {.create_graph = true}), wrt);
    };
    kept.push_back(g);
    const Tensor flat = run_checkpointed(pull, kept, true);
    Tensors result;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (!marks[i]) continue;
      const Shape shape = input_shape(i);
      const Tensor part = narrow(flat, 0, begin, numel(shape));
      const Tensor shaped = reshape(part, shape);
      result.push_back(to(shaped, input_dtype(i)));
      begin += numel(shape);
    }
    return result;
  }

  std::shared_ptr<const Run> run_;
  Tensors parameters_;  // that y depends on: the node's inputs after those of f
  std::vector<std::unique_ptr<Saved>> saved_;
  std::int64_t flops_ = 0;
  bool planned_ = false;
};

// `saves_inside`: f takes gradients on the tape inside.
Tensor run_checkpointed(Block f, const Tensors& inputs, bool saves_inside) {
  if (!f) throw ValueError(name, "there is no function to run");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_defined(name, "input " + std::to_string(i), inputs[i]);
  if (!Tape::recording()) return call(f, inputs);
  const auto run = std::make_shared<Run>();
  run->f = std::move(f);
  for (const Tensor& x : inputs) run->tracked.push_back(x.requires_grad());
  const FirstRun first = run_first(*run, inputs, saves_inside);
  // What y does not depend on is a constant here: it is not reached, and gets no zeros.
  Tensors edges;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    edges.push_back(first.inputs[i] ? inputs[i] : inputs[i].detach());
  edges = joined(std::move(edges), first.parameters);
  std::vector<const Tensor*> pointers;
  for (const Tensor& x : edges) pointers.push_back(&x);
  return record<CheckpointNode>(first.y, pointers,
                                [&](CheckpointNode& node) { node.set(run, first, inputs); });
}

}  // namespace

Tensor checkpoint(Block f, const std::vector<Tensor>& inputs) {
  return run_checkpointed(std::move(f), inputs, false);
}

}  // namespace tapehead::nn
