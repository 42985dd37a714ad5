// nn::checkpoint: the same results and gradients as without it, for the bytes of the inputs alone.
// Its errors are in checkpoint_errors_test.cpp, the modules' own option in
// checkpoint_modules_test.cpp.
#include "support/attention.h"
#include "support/checks.h"
#include "support/gradients.h"
#include "support/graph_figures.h"
#include "support/operation_run.h"
#include "support/tensors.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/scope.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/write.h>

#include <array>
#include <optional>

using namespace tapehead;
using namespace tapehead::tests;
using nn::checkpoint;

namespace {

using List = std::vector<Tensor>;

const nn::MultiHeadAttentionOptions dropping{.embed_dim = 12, .num_heads = 3, .dropout = 0.4};

// f as it is, or as a checkpoint.
Tensor call(bool checkpointed, const nn::Block& f, const List& inputs) {
  return checkpointed ? checkpoint(f, inputs) : f(inputs);
}

// Two layers with dropout, a parameter each.
struct Network {
  Tensor w1 = random_leaf({4, 6}), w2 = random_leaf({6, 5}), unused = random_leaf({3});

  nn::Block first() const {
    return [this](const List& in) {
      const Tensor hidden = tanh(matmul(in[0], w1));
      const Tensor kept = dropout(hidden, 0.3);
      return mul(kept, exp(kept));
    };
  }
  nn::Block second() const {
    return [this](const List& in) { return sigmoid(matmul(dropout(in[0], 0.5), w2)); };
  }
};

}  // namespace

TEST_CASE("a checkpoint has the results and gradients of the function itself, bit for bit") {
  const Network net;
  const Tensor x = random_leaf({3, 4}), upstream = randn({3, 5}, DType::f64);
  const auto run = [&](bool checkpointed) {
    manual_seed(11);
    Tape tape;
    const Tensor hidden = call(checkpointed, net.first(), {exp(x)});
    const Tensor y = call(checkpointed, net.second(), {hidden});
    const Gradients g = tape.gradient(y, {x, net.w1, net.w2, net.unused, hidden}, upstream);
    CHECK(g.reached(net.w1));
    CHECK(!g.reached(net.unused));
    return std::array{y.to_vector(),         g[x].to_vector(),      g[net.w1].to_vector(),
                      g[net.w2].to_vector(), g[hidden].to_vector(), rand({3}).to_vector()};
  };
  CHECK(run(true) == run(false));  // the last are draws after it: the generator stands the same
}

TEST_CASE(
    "DROP-1: dropout in a checkpoint drops the same elements again, whatever generator it has") {
  const Tensor x = parameter(ones({1000}, DType::f64));
  Generator own(3);
  for (Generator* generator : {&default_generator(), &own}) {
    const auto f = [&](const List& in) { return dropout(in[0], 0.5, *generator); };
    Tape tape;
    const Tensor y = checkpoint(f, {x}), z = checkpoint(f, {x});
    const RandomState before = generator->state();
    CHECK(tape.gradient(y, {x}, ones({1000}, DType::f64), {.keep = true})[x].to_vector() ==
          y.to_vector());
    CHECK(tape.gradient(z, {x}, ones({1000}, DType::f64))[x].to_vector() == z.to_vector());
    CHECK(generator->state() == before);
    CHECK(y.to_vector() != z.to_vector());
  }
}

TEST_CASE("a checkpointed attention saves its inputs and nothing else") {
  const nn::MultiHeadAttention attention = make_attention(dropping);
  const Tensor x = random_leaf({2, 7, 12});
  const auto run = [&](bool checkpointed, Graph& graph, std::int64_t& freed) {
    manual_seed(4);
    Tape tape;
    Tensor y = call(checkpointed,
                    [&](const List& in) { return attention(in[0], nn::Mask::causal()); }, {exp(x)});
    graph = tape.graph();
    const Gradients g = tape.gradient(y, attention.parameters(), ones_like(y), {.keep = true});
    y = Tensor();
    std::vector<std::vector<double>> gradients;
    for (const Tensor& w : attention.parameters()) gradients.push_back(g[w].to_vector());
    freed = memory_stats().live;
    return gradients;
  };
  Graph plain, saved;
  std::int64_t ignored = 0;
  CHECK(run(true, saved, ignored) == run(false, plain, ignored));
  const std::int64_t input = 2 * 7 * 12 * 8;
  CHECK(saved.saved_activation_bytes() == input);  // exp's y, which is the input of the checkpoint
  CHECK(plain.saved_activation_bytes() > 5 * input);
  REQUIRE(saved.nodes.size() == 2);
  CHECK(saved.nodes[1].operation == "checkpoint");
  CHECK(saved.nodes[1].inputs.size() == 1 + attention.parameters().size());
  CHECK(saved.nodes[1].flops == flops(plain));
  CHECK(flops(plain) > 0);
  for (const Graph::SavedSlot& slot : saved.saved)
    if (slot.node == 1) CHECK((slot.slot == "input" || slot.slot == "parameter"));
}

TEST_CASE("every operation in a checkpoint has its gradients, of both orders") {
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    const auto run = [&](bool checkpointed) {
      const List inputs = make_leaves(row, shape_variations(row).front());
      const List wrt = differentiable(row, inputs);
      manual_seed(2);
      Tape tape;
      std::size_t results = row.call(inputs).size();
      std::vector<std::vector<double>> numbers;
      for (std::size_t k = 0; k < results; ++k) {
        const auto f = [&](const List& in) { return row.call(in)[k]; };
        const Tensor y = call(checkpointed, f, inputs);
        if (!y.requires_grad()) continue;
        const List upstream = make_upstream({y}, Layout::contiguous);
        const Gradients first = tape.gradient(y, wrt, upstream[0], {.create_graph = true});
        List recorded;
        for (const Tensor& x : wrt) {
          numbers.push_back(first[x].to_vector());
          if (first[x].requires_grad()) recorded.push_back(first[x]);
        }
        if (recorded.empty()) continue;
        const Gradients second = tape.gradient(
            recorded, wrt, make_upstream(recorded, Layout::contiguous), {.keep = true});
        for (const Tensor& x : wrt) numbers.push_back(second[x].to_vector());
      }
      return numbers;
    };
    const auto right = run(false), got = run(true);
    REQUIRE(got.size() == right.size());
    // Where an input is used twice the sum is taken in another order: a few roundings.
    for (std::size_t i = 0; i < right.size(); ++i) CHECK(relative_error(got[i], right[i]) < 1e-13);
  }
}

TEST_CASE("gradcheck passes to third order through checkpoints, with parameters inside") {
  const Tensor w = random_leaf({4, 3});
  const auto piece = [](const List& in) { return tanh(matmul(in[0], in[1])); };
  const auto f = [&](const List& in) { return checkpoint(piece, in); };
  const List inputs{randn({2, 4}, DType::f64), randn({4, 3}, DType::f64)};
  check_first_order(f, inputs);
  check_second_order(f, inputs);

  // The leaf w is used inside and comes in as an input, too; twice differentiated, then once more.
  const Tensor x = random_leaf({2, 4});
  const auto third = [&](bool checkpointed) {
    Tape tape;
    const auto inside = [&](const List& in) { return tanh(matmul(in[0], mul(in[1], w))); };
    const Tensor y = sum(call(checkpointed, inside, {x, w}));
    const Tensor dw = tape.gradient(y, {w}, {}, {.create_graph = true})[w];
    const Tensor first = sum(mul(dw, dw));
    const Tensor ddw = tape.gradient(first, {x}, {}, {.create_graph = true})[x];
    const Tensor second = sum(mul(ddw, ddw));
    const Gradients g = tape.gradient(second, {x, w});
    return std::pair(g[x].to_vector(), g[w].to_vector());
  };
  const auto got = third(true), right = third(false);
  CHECK(relative_error(got.first, right.first) < 1e-12);  // sums in another order, three times
  CHECK(relative_error(got.second, right.second) < 1e-12);
}

TEST_CASE("nested checkpoints replay their random numbers and give the same gradients") {
  const Network net;
  const Tensor x = random_leaf({3, 4}), upstream = randn({3, 5}, DType::f64);
  const auto run = [&](bool checkpointed) {
    manual_seed(8);
    Tape tape;
    const auto both = [&](const List& in) {
      const Tensor noisy = dropout(in[0], 0.2);
      const Tensor hidden = call(checkpointed, net.first(), {noisy});
      const Tensor y = call(checkpointed, net.second(), {hidden});
      return dropout(y, 0.1);
    };
    const Tensor y = call(checkpointed, both, {x});
    if (checkpointed) CHECK(tape.size() == 1);
    const Tensor dx = tape.gradient(y, {x}, upstream, {.create_graph = true})[x];
    const Gradients g = tape.gradient(sum(mul(dx, dx)), {x, net.w1, net.w2});
    return std::array{y.to_vector(), dx.to_vector(), g[x].to_vector(), g[net.w1].to_vector(),
                      g[net.w2].to_vector()};
  };
  const auto got = run(true), right = run(false);
  CHECK(got[0] == right[0]);
  CHECK(got[1] == right[1]);
  for (std::size_t i = 2; i < 5; ++i) CHECK(relative_error(got[i], right[i]) < 1e-13);
}

TEST_CASE("a checkpoint inside another may have inputs that its result does not depend on") {
  const Tensor x = random_leaf({3}), unused = random_leaf({4});
  const auto inner = [](const List& in) { return exp(in[0]); };
  const auto outer = [&](const List& in) { return checkpoint(inner, in); };
  Tape tape;
  const Tensor y = checkpoint(outer, {x, unused});
  const Gradients g = tape.gradient(sum(y), {x, unused});
  CHECK(g[x].to_vector() == exp(x.detach()).to_vector());
  CHECK(!g.reached(unused));
}

TEST_CASE(
    "inputs that want no gradient, one given twice, and one that the result does not depend on") {
  const Tensor x = random_leaf({3}), other = random_leaf({3}), constant = randn({3}, DType::f64);
  const Tensor index = from_vector<std::int64_t>({2, 0}, {2});
  Tape tape;
  const Tensor y = checkpoint(
      [](const List& in) {
        const Tensor part = mul(in[0], in[1]);
        const Tensor chosen = add(part, in[2]);
        return add(chosen, mul(in[3].detach(), static_cast<double>(in[4].numel())));
      },
      {x, x, constant, other, index});
  const Gradients g = tape.gradient(y, {x, other}, ones({3}, DType::f64));
  CHECK(g[x].to_vector() == mul(x.detach(), 2).to_vector());
  CHECK(!g.reached(other));
  const Tensor z = checkpoint([](const List& in) { return exp(in[0]); }, {constant});
  CHECK(!z.requires_grad());
  const Tensor cut = checkpoint([](const List& in) { return exp(in[0].detach()); }, {x});
  CHECK(!cut.requires_grad());
  const Tensor same = checkpoint([](const List& in) { return in[0]; }, {x});
  CHECK(tape.gradient(same, {x}, constant)[x].to_vector() == constant.to_vector());
  CHECK(tape.size() == 2);
}

TEST_CASE("where nothing records, a checkpoint is the function itself") {
  const Tensor x = random_leaf({3});
  const auto f = [](const List& in) { return exp(in[0]); };
  CHECK(checkpoint(f, {x}).to_vector() == exp(x).to_vector());
  Tape tape;
  const Tape::Pause pause;
  CHECK(!checkpoint(f, {x}).requires_grad());
  CHECK(tape.size() == 0);
}

TEST_CASE("the function runs again in the module path of the first run") {
  const Tensor x = random_leaf({3});
  std::vector<std::string> paths;
  const auto f = [&](const List& in) {
    const ModuleScope scope("inner");
    paths.push_back(ModuleScope::path());
    return exp(in[0]);
  };
  Tape tape;
  Tensor y;
  {
    const ModuleScope scope("outer");
    y = sum(checkpoint(f, {x}));
  }
  tape.gradient(y, {x});
  CHECK(paths == std::vector<std::string>{"outer.inner", "outer.inner"});
}

TEST_CASE("a checkpoint's dry run has the bytes, peak and graph of the real run") {
  const nn::MultiHeadAttention attention = make_attention(dropping);
  const auto run = [&] {
    const Tensor x = parameter(empty("x", {2, 7, 12}, DType::f64));
    if (!DryRun::active()) fill_(x, 0.25);
    const std::int64_t start = memory_stats().live;
    reset_peak();
    std::vector<std::int64_t> books;
    Graph graph;
    {
      Tape tape;
      const Tensor y = checkpoint([&](const List& in) { return attention(in[0]); }, {x});
      const Tensor loss = sum(mul(y, y));
      books.push_back(memory_stats().live - start);
      const Tensor dx = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
      books.push_back(memory_stats().live - start);
      const Gradients g = tape.gradient(sum(dx), attention.parameters());
      books.push_back(memory_stats().live - start);
      graph = tape.graph();
    }
    books.push_back(memory_stats().peak - start);
    return std::pair(books, graph);
  };
  manual_seed(1);
  const auto real = run();
  manual_seed(1);
  const DryRun dry;
  const auto planned = run();
  CHECK(planned.first == real.first);
  CHECK(planned.second == real.second);
}

TEST_CASE("a checkpoint around what only a dry run computes is planned, not proven") {
  const DryRun dry;
  const Tensor x = parameter(empty("x", {3}, DType::f32));
  Tape tape;
  const auto through_bf16 = [](const List& in) {
    const Tensor half = to(in[0], DType::bf16);
    const Tensor squares = mul(half, half);
    return to(squares, DType::f32);
  };
  checkpoint(through_bf16, {x});
  checkpoint([](const List& in) { return to(to(in[0], DType::bf16), DType::f32); }, {x});
  const Graph graph = tape.graph();
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.nodes[0].planned);
  CHECK(!graph.nodes[1].planned);
}

TEST_CASE("checkpoints lower the peak of a deep model, and hooks pack what they save") {
  constexpr int depth = 12;
  List weights;
  for (int i = 0; i < depth; ++i) weights.push_back(random_leaf({16, 16}));
  const Tensor x = random_leaf({64, 16});
  const auto peak_of = [&](bool checkpointed, bool packs) {
    const std::int64_t start = memory_stats().live;
    reset_peak();
    Tape tape;
    std::optional<nn::KeepInBf16> hooks;
    if (packs) hooks.emplace();
    Tensor y = x;
    for (const Tensor& w : weights)
      y = call(checkpointed,
               [&w](const List& in) {
                 const Tensor hidden = exp(tanh(matmul(in[0], w)));
                 return tanh(mul(hidden, sigmoid(hidden)));
               },
               {y});
    hooks.reset();
    y = sum(y);
    tape.gradient(y, weights);
    return memory_stats().peak - start;
  };
  const std::int64_t plain = peak_of(false, false), low = peak_of(true, false),
                     lowest = peak_of(true, true);
  CHECK(2 * low < plain);
  CHECK(3 * lowest < 2 * low);
}
