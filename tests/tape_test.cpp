// What a tape records, and which tensors it takes (core/tape.h), with the core's toy operations.
#include "support/checks.h"
#include "support/toy_operations.h"

#include <tapehead/ops/create.h>

#include <thread>

using namespace tapehead;
using tests::check_throws;
using toy::constant;
using toy::leaf;
using toy::product;
using toy::scaled;
using toy::total;

// ---- what records -------------------------------------------------------------------------------

TEST_CASE("nothing records without a tape, and a constant computed under one leaves no node") {
  const Tensor a = constant(2), b = constant(3);
  CHECK(Tape::recording() == nullptr);
  CHECK(product(a, b).requires_grad() == false);
  Tape tape;
  CHECK(Tape::recording() == &tape);
  CHECK(product(a, b).requires_grad() == false);
  CHECK(tape.size() == 0);
}

TEST_CASE("the innermost open tape records, and the outer one goes on when it closes") {
  const Tensor x = leaf(3);
  Tape outer;
  const Tensor y = product(x, x);
  {
    Tape inner;
    const Tensor z = product(x, x);
    CHECK(inner.size() == 1);
    CHECK(outer.size() == 1);
    CHECK(inner.gradient(z, {x})[x].item() == 6);
  }
  CHECK(Tape::recording() == &outer);
  CHECK(outer.gradient(product(y, y), {x})[x].item() == 4 * 27);
}

TEST_CASE("a tape that is closed out of order does not leave a dangling recorder") {
  {
    auto first = std::make_unique<Tape>();
    const Tape second;
    first.reset();
    CHECK(Tape::recording() == &second);
  }
  CHECK(Tape::recording() == nullptr);
}

TEST_CASE("a Pause pauses the tape that it began under, whichever of the two goes first") {
  const Tensor x = parameter(ones({2}));
  auto outside = std::make_unique<Tape::Pause>();
  auto tape = std::make_unique<Tape>();
  auto inside = std::make_unique<Tape::Pause>();
  CHECK(Tape::recording() == nullptr);
  outside.reset();
  CHECK(Tape::paused());
  inside.reset();
  CHECK(Tape::recording() == tape.get());
  inside = std::make_unique<Tape::Pause>();
  tape.reset();
  CHECK_FALSE(Tape::paused());
  const Tape next;
  CHECK(Tape::recording() == &next);
  inside.reset();
  CHECK(Tape::recording() == &next);
}

TEST_CASE("Pause suspends recording until it is destroyed, and results are constants") {
  const Tensor x = leaf(3);
  Tape tape;
  {
    const Tape::Pause pause;
    CHECK(Tape::recording() == nullptr);
    const Tensor y = product(x, x);
    CHECK_FALSE(y.requires_grad());
    { const Tape::Pause again; }
    CHECK(Tape::recording() == nullptr);
    Tape inside;  // opened on purpose below the pause: it records
    CHECK(inside.gradient(product(x, x), {x})[x].item() == 6);
  }
  CHECK(tape.size() == 0);
  CHECK(tape.gradient(product(x, x), {x})[x].item() == 6);
}

TEST_CASE(
    "a saved tensor names the inputs that it is read for by numbers up to 31, or all of them") {
  struct Far final : Node {
    explicit Far(int input) : Node("far"), x(*this, "x", {input}, "dx = x") {}
    Saved x;
    Grads backward(Tensor g, const Wanted&) override { return {g}; }
  };
  CHECK_NOTHROW(Far(31));
  for (const int input : {-1, 32})
    check_throws(ErrorKind::state, {"far", "\"x\"", std::to_string(input), "[0, 31]"},
                 [&] { const Far node(input); });
}

TEST_CASE(
    "an operation records only what it needs: saved tensors of unwanted gradients are not kept") {
  const Tensor x = leaf({1, 2}, {2}), k = from_vector<double>({3, 4}, {2});
  Tape tape;
  product(x, k);
  const Graph graph = tape.graph();
  REQUIRE(graph.saved.size() == 1);
  CHECK(graph.saved[0].slot == "b");
  CHECK(graph.saved[0].reason == "da = g * b");
  CHECK(graph.saved[0].for_inputs == std::vector<std::int64_t>{0});
}

// ---- whose tape ---------------------------------------------------------------------------------

TEST_CASE("a tensor of another open tape is a StateError, as an input and in gradient") {
  const Tensor x = leaf(3);
  Tape outer;
  const Tensor y = product(x, x);
  Tape inner;
  check_throws(ErrorKind::state, {"product", "another open tape", "x.detach()"},
               [&] { product(y, x); });
  check_throws(ErrorKind::state, {"gradient", "another open tape"},
               [&] { inner.gradient(y, {x}); });
  CHECK(inner.size() == 0);
  CHECK(product(y.detach(), x).requires_grad());
}

TEST_CASE("a tensor of a tape that closed before this one opened is a constant") {
  const Tensor x = leaf(3);
  Tensor carried = constant(1);
  for (int step = 0; step < 3; ++step) {  // truncated backpropagation
    Tape tape;
    const Tensor y = product(carried, x);
    CHECK(tape.size() == 1);
    CHECK(tape.gradient(y, {x})[x].item() == carried.detach().item());
    carried = y;
  }
  CHECK(carried.item() == 27);
}

TEST_CASE("total += loss across tapes stays a number and records nothing outside") {
  const Tensor x = leaf(3);
  Tensor sum = constant(0);
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const Tensor loss = product(x, x);
    tape.gradient(loss, {x});
    sum = accumulate(sum, loss);
  }
  CHECK(sum.item() == 27);
  Tape tape;
  CHECK_FALSE(accumulate(sum, constant(1)).requires_grad());
  CHECK(tape.size() == 0);
}

TEST_CASE("an inner tape's result used under the outer one is a StateError that names detach()") {
  const Tensor x = leaf(3);
  Tape outer;
  Tensor y;
  {
    Tape inner;
    y = product(x, x);
  }
  check_throws(ErrorKind::state, {"product", "closed after this one had opened", "x.detach()"},
               [&] { product(y, x); });
  CHECK(outer.gradient(product(y.detach(), x), {x})[x].item() == 9);
}

TEST_CASE("a tape around this one that closes first leaves results that are no constants") {
  const Tensor x = leaf(3);
  auto other = std::make_unique<Tape>();
  const Tensor y = product(x, x);
  Tape tape;
  other.reset();
  check_throws(ErrorKind::state, {"product", "x.detach()"}, [&] { product(y, x); });
}

TEST_CASE("what was computed from a parameter outside any tape is a StateError under one") {
  const Tensor x = leaf(3);
  const Tensor y = product(x, x);
  const Tensor z = scaled(y, 2);  // and what was computed from that
  CHECK(y.requires_grad());
  Tape tape;
  check_throws(ErrorKind::state, {"scaled", "no tape was open", "x.detach()"},
               [&] { scaled(y, 2); });
  check_throws(ErrorKind::state, {"no tape was open"}, [&] { tape.gradient(z, {x}); });
  CHECK(product(z.detach(), x).requires_grad());
  CHECK(y.item() == 9);  // reading its value is fine
}

TEST_CASE("parameter takes sole ownership and refuses what is not a floating constant") {
  const Tensor shared = constant(1);
  check_throws(ErrorKind::state, {"parameter", "shared", "pass clone(x)"},
               [&] { parameter(shared); });
  Tensor values = from_vector<double>({1, 2}, {2});
  const Tensor view = alias(values, {1}, {1}, 0);
  check_throws(ErrorKind::state, {"parameter", "shared"}, [&] { parameter(std::move(values)); });
  check_throws(ErrorKind::dtype, {"parameter", "i64 (1)", "floating"},
               [] { parameter(from_vector<std::int64_t>({1}, {1})); });
  const Tensor x = leaf(1);
  Tape tape;
  check_throws(ErrorKind::state, {"parameter", "tape", "clone(x.detach())"},
               [&] { parameter(product(x, x)); });
  check_throws(ErrorKind::state, {"parameter", "leaf"}, [] { parameter(leaf(1)); });
}

TEST_CASE("only its own thread may walk a tape") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x);
  std::thread([&] {
    check_throws(ErrorKind::state, {"gradient", "another thread"}, [&] { tape.gradient(y, {x}); });
  }).join();
  CHECK(tape.gradient(y, {x})[x].item() == 6);
}

TEST_CASE("create_graph on a tape that is paused or not the innermost is a StateError") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x);
  const auto second_order = [&] { tape.gradient(y, {x}, {}, {.create_graph = true}); };
  {
    const Tape::Pause pause;
    check_throws(ErrorKind::state, {"create_graph", "paused"}, second_order);
    CHECK(tape.gradient(y, {x}, {}, {.keep = true})[x].item() == 6);
  }
  {
    const Tape inner;
    check_throws(ErrorKind::state, {"create_graph", "innermost"}, second_order);
    CHECK(tape.gradient(y, {x}, {}, {.keep = true})[x].item() == 6);
    CHECK(inner.size() == 0);
  }
  second_order();
}

TEST_CASE("an operation that fails while it is being recorded leaves no trace") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = constant(6);
  CHECK_THROWS_AS(record<toy::ScaledNode>(y, {&x}, [](auto&) { throw std::bad_alloc(); }),
                  std::bad_alloc);
  CHECK(tape.size() == 0);
  CHECK_FALSE(y.requires_grad());
  const Tensor z = product(x, y);
  CHECK(tape.graph().nodes.size() == 1);
  CHECK(tape.gradient(z, {x})[x].item() == 6);
}

// ---- saved tensors and versions -----------------------------------------------------------------

TEST_CASE("a saved tensor that was written to is a StateError with operation, slot and versions") {
  const Tensor x = leaf({1, 2}, {2}), k = from_vector<double>({3, 4}, {2});
  Tape tape;
  const Tensor y = total(product(x, k));
  k.storage()->bump_version();
  check_throws(ErrorKind::state, {"product", "\"b\"", "f64 (2)", "version 0", "version 1"},
               [&] { tape.gradient(y, {x}); });
}

TEST_CASE("a rule that reads what was not kept is a StateError with operation and slot") {
  struct GreedyNode final : Node {
    GreedyNode() : Node("greedy") {}
    Saved b{*this, "b", {1}, "db = g * b"};
    Grads backward(Tensor, const Wanted&) override { return {b.get(), b.get()}; }
  };
  const Tensor x = leaf(3), k = constant(2);
  Tape tape;
  const Tensor y = record<GreedyNode>(constant(6), {&x, &k}, [&](GreedyNode& node) {
    node.b.save(k);  // only the gradient of k would read it, and k is a constant
  });
  check_throws(ErrorKind::state, {"greedy", "\"b\" was not kept"}, [&] { tape.gradient(y, {x}); });
}
