// What every operation owes the tape: it records when it must and only then, saves what its
// contract says, adds to gradients and never overwrites them, and fails in the same way with and
// without.
#include "support/operation_run.h"

#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/testing.h>

#include <algorithm>
#include <set>

using namespace tapehead;
using namespace tapehead::tests;

TEST_CASE("no operation records without a tape, or from constants") {
  for_each_variation(shape_variations, [](const OperationCase& row, const Variation& variation) {
    for (const Tensor& result : row.call(make_leaves(row, variation)))
      CHECK((!is_floating(result.dtype()) ||
             result.requires_grad()));  // untracked: it is no constant
    Tape tape;
    for (const Tensor& result : row.call(make_inputs(row, variation)))
      CHECK_FALSE(result.requires_grad());
    {
      const Tape::Pause pause;
      for (const Tensor& result : row.call(make_leaves(row, variation)))
        CHECK((!result.requires_grad() || result.is_leaf()));
    }
    CHECK(tape.size() == 0);
    CHECK(tape.graph().values.empty());
  });
}

TEST_CASE("every operation saves what its contract says") {
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    const std::vector<Tensor> inputs = make_leaves(row, shape_variations(row).front());
    Tape tape;
    row.call(inputs);
    const Graph graph = tape.graph();
    CHECK(saved_names(graph, row.operation()) == row.saved());
    for (const Graph::SavedSlot& slot : graph.saved) {
      INFO("slot ", slot.slot);
      CHECK_FALSE(slot.reason.empty());
      CHECK_FALSE(slot.for_inputs.empty());
    }
  }
}

TEST_CASE("every operation saves nothing for gradients that nobody wants") {
  for (const OperationCase& row : operation_cases())
    for (std::size_t only = 0; only < row.inputs().size(); ++only) {
      if (!row.inputs()[only].is_differentiable()) continue;
      CAPTURE(row.name());
      CAPTURE(only);
      std::vector<Tensor> inputs = make_inputs(row, shape_variations(row).front());
      inputs[only] = parameter(std::move(inputs[only]));
      Tape tape;
      row.call(inputs);
      const Graph graph = tape.graph();
      for (const Graph::SavedSlot& slot : graph.saved) {
        const Graph::Node& node = graph.nodes[static_cast<std::size_t>(slot.node)];
        for (const std::int64_t input : slot.for_inputs) {
          const auto value = static_cast<std::size_t>(node.inputs[static_cast<std::size_t>(input)]);
          INFO("slot ", slot.slot, " for input ", input);
          CHECK((graph.values[value].leaf || graph.values[value].producer >= 0));
        }
      }
    }
}

TEST_CASE("what the graph says is saved is what the tape holds in memory") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> inputs = make_leaves(row, variation);
    std::int64_t claimed = 0, held = 0;
    {
      Tape tape;
      row.call(inputs);
      claimed = tape.graph().saved_activation_bytes();
      held = memory_stats().live;
    }
    CHECK(held - memory_stats().live == claimed);
  });
}

TEST_CASE("FAN-2 every operation adds to a gradient, and none overwrites it") {
  for_each_variation(shape_variations, [](const OperationCase& row, const Variation& variation) {
    const Numbers alone = run_row(row, make_leaves(row, variation));
    if (alone.gradients.empty()) return;
    for (const bool operation_first : {true, false}) {
      const std::vector<Tensor> inputs = make_leaves(row, variation);
      const std::vector<Tensor> wrt = differentiable(row, inputs);
      Tape tape;
      std::vector<Tensor> results, seeds;
      const auto use_again = [&] {
        for (const Tensor& x : wrt) {
          results.push_back(accumulate(x, x));
          seeds.push_back(filled("test", x.shape(), x.dtype(), 1.5));
        }
      };
      if (!operation_first) use_again();
      const std::vector<Tensor> of_row = row.call(inputs);
      const std::vector<Tensor> upstream = make_upstream(of_row, Layout::contiguous);
      results.insert(results.end(), of_row.begin(), of_row.end());
      seeds.insert(seeds.end(), upstream.begin(), upstream.end());
      if (operation_first) use_again();
      const auto gradients = gradients_of(tape, results, seeds, wrt);
      for (std::size_t i = 0; i < wrt.size(); ++i) {
        std::vector<double> right = alone.gradients[i];
        for (double& value : right) value += 3;
        CHECK(relative_error((*gradients)[wrt[i]].to_vector(), right) <= 1e-14);
      }
    }
  });
}

TEST_CASE("FAN-4 gradients of an operation's inputs share no buffer, with each other or the seed") {
  for_each_variation(shape_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> inputs = make_leaves(row, variation);
    const std::vector<Tensor> wrt = differentiable(row, inputs);
    Tape tape;
    const std::vector<Tensor> results = row.call(inputs);
    const std::vector<Tensor> upstream = make_upstream(results, Layout::contiguous);
    const auto gradients = gradients_of(tape, results, upstream, wrt);
    if (!gradients) return;
    std::set<std::uint64_t> storages;
    for (const auto* group : {&inputs, &upstream, &results})
      for (const Tensor& tensor : *group)
        if (tensor.defined()) storages.insert(tensor.storage()->id());
    for (const Tensor& x : wrt) {
      const Tensor gradient = (*gradients)[x];
      CHECK(storages.insert(gradient.storage()->id()).second);
      CHECK(gradient.is_contiguous());
      CHECK(gradient.shape() == x.shape());
      CHECK(gradient.dtype() == x.dtype());
    }
  });
}

namespace {

// Notes the storages that the rules of a walk find saved, and runs none of them.
class SavedStorages final : public testing::RuleHook {
 public:
  std::set<std::uint64_t> ids;
  Grads run(Node& node, Tensor g, const Wanted& wanted) override {
    for (const Saved* saved : kept_by(node)) ids.insert(saved->get().storage()->id());
    return node.backward(std::move(g), wanted);
  }
};

// Writes to one of the inputs and results, if it was saved, and asks for gradients.
void check_refuses_stale(const OperationCase& row, const std::vector<Tensor>& inputs,
                         std::size_t written) {
  Tape tape;
  const std::vector<Tensor> results = row.call(inputs);
  std::vector<Tensor> upstream;
  for (const Tensor& result : results)
    upstream.push_back(filled("upstream", result.shape(), result.dtype(), 1));
  const std::vector<Tensor> wrt = differentiable(row, inputs);
  const Tensor victim =
      written < inputs.size() ? inputs[written] : results[written - inputs.size()];
  bool is_saved = false;
  {
    SavedStorages noting;
    gradients_of(tape, results, upstream, wrt, {.keep = true});
    is_saved = noting.ids.contains(victim.storage()->id());
  }
  if (!is_saved) return;
  victim.storage()->bump_version();
  check_throws(ErrorKind::state, {"written to after it was saved", "version 0"},
               [&] { gradients_of(tape, results, upstream, wrt); });
}

}  // namespace

TEST_CASE("REUSE-2 every operation refuses a saved tensor that was written to, in a dry run too") {
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    const Variation variation = shape_variations(row).front();
    const std::size_t tensors = row.inputs().size() + row.call(make_inputs(row, variation)).size();
    for (std::size_t written = 0; written < tensors; ++written) {
      CAPTURE(written);
      check_refuses_stale(row, make_leaves(row, variation), written);
      const std::vector<Tensor> inputs = make_leaves(row, variation);
      const DryRun dry;
      check_refuses_stale(row, inputs, written);
    }
  }
}

TEST_CASE("every operation throws the same with and without a tape, and leaves both usable") {
  for (const OperationCase& row : operation_cases())
    for (std::size_t changed = 0; changed < row.inputs().size(); ++changed)
      for (const auto& wrong : std::vector<std::pair<std::string, Input>>{
               {"a longer shape", {row.inputs()[changed].domain, {2, 3, 4, 5, 6}, 4}},
               {"no dims", {row.inputs()[changed].domain, {}, 4}},
               {"another size", {row.inputs()[changed].domain, {7}, 4}},
               {"another dtype", {Domain::index, row.inputs()[changed].shape, 2}},
               {"a mask", {Domain::mask, row.inputs()[changed].shape}},
               {"indices out of range", {Domain::index, row.inputs()[changed].shape, 1000000}}}) {
        CAPTURE(row.name());
        CAPTURE(changed);
        CAPTURE(wrong.first);
        std::vector<Input> inputs = row.inputs();
        inputs[changed] = wrong.second;
        inputs[changed].fixed = row.inputs()[changed].fixed;
        const OperationCase other(row.name(), inputs,
                                  [&row](In x) { return row.call(std::move(x)); });
        const Variation variation = shape_variations(other).front();
        const auto without = thrown_by([&] { row.call(make_leaves(other, variation)); });
        Tape tape;
        CHECK(thrown_by([&] { row.call(make_leaves(other, variation)); }) == without);
        if (without) {
          // Values are looked at last, when views that prepare them stand on the tape already.
          if (wrong.first != "indices out of range") CHECK(tape.size() == 0);
          CHECK(without->kind != ErrorKind::state);
          CHECK(without->text.substr(0, without->text.find(':')).find(' ') == std::string::npos);
        }
        const Tensor x = parameter(from_vector<double>({1}, {1}));
        CHECK(tape.gradient(accumulate(x, x), {x})[x].item() == 2);
      }
}

TEST_CASE("every operation says DTypeError to element types that it does not take") {
  for (const OperationCase& row : operation_cases()) {
    if (row.takes_any_dtype()) continue;
    for (std::size_t changed = 0; changed < row.inputs().size(); ++changed) {
      CAPTURE(row.name());
      CAPTURE(changed);
      const bool is_index = row.inputs()[changed].domain == Domain::index;
      std::vector<Tensor> inputs = make_inputs(row, shape_variations(row).front());
      const Tensor& x = inputs[changed];
      const auto floating = std::count_if(inputs.begin(), inputs.end(),
                                          [](const Tensor& t) { return is_floating(t.dtype()); });
      for (const DType wrong : {DType::i64, DType::boolean, DType::f32}) {
        if (wrong == (is_index ? DType::i64 : DType::boolean) && !is_floating(x.dtype())) continue;
        if (wrong == DType::f32 && is_floating(x.dtype()) && floating == 1) continue;
        std::vector<Tensor> wrongly = inputs;
        wrongly[changed] = from_vector(std::vector<double>(static_cast<std::size_t>(x.numel()), 1),
                                       x.shape(), wrong);
        const auto thrown = thrown_by([&] { row.call(wrongly); });
        INFO("as ", to_string(wrong));
        REQUIRE(thrown.has_value());
        CHECK_MESSAGE(thrown->kind == ErrorKind::dtype, thrown->text);
        CHECK_MESSAGE(thrown->text.find(to_string(wrong)) != std::string::npos, thrown->text);
      }
    }
  }
}
