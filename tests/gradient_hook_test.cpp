// GradientOptions::on_complete: a leaf's gradient is complete, told during the reverse walk.
#include "support/checks.h"
#include "support/toy_operations.h"

#include <string>

using namespace tapehead;
using tests::check_throws;
using toy::leaf;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

using Values = std::vector<double>;
using Words = std::vector<std::string>;

Tensor named(const char* name, double value) {
  Tensor x = leaf(value);
  x.set_name(name);
  return x;
}

// An identity whose rule says that it ran.
struct LoudNode final : Node {
  LoudNode() : Node("loud") {}
  Words* log = nullptr;
  std::string word;
  Grads backward(Tensor g, const Wanted&) override {
    log->push_back(word);
    return {std::move(g)};
  }
};
Tensor loud(const Tensor& x, const char* word, Words& log) {
  return record<LoudNode>(copied("loud", x), {&x}, [&](LoudNode& node) {
    node.log = &log;
    node.word = word;
  });
}

// Writes down the leaves that it is called with, by name.
LeafHook note(Words& log) {
  return [&log](const Tensor& of, const Tensor&) { log.emplace_back(of.name()); };
}

}  // namespace

TEST_CASE("a leaf is told of after the first operation that used it, before earlier rules run") {
  const Tensor a = named("a", 2), b = named("b", 3), c = named("c", 5);
  Words log;
  Tape tape;
  const Tensor ab = loud(product(a, b), "ab", log);
  const Tensor abc = loud(product(ab, c), "abc", log);
  const Tensor y = loud(product(abc, b), "abcb", log);  // b's first use is the earlier one
  const Gradients g = tape.gradient(y, {c, a, b}, {}, {.on_complete = note(log)});
  CHECK(log == Words{"abcb", "abc", "c", "ab", "a", "b"});
  CHECK(g[b].item() == 2 * 2 * 3 * 5);
}

TEST_CASE("every leaf is told of once, reached or not, and intermediates are not") {
  const Tensor a = named("a", 2), aside = named("aside", 3), unused = named("unused", 4);
  Words log;
  std::vector<bool> has_gradient;
  Tape tape;
  const Tensor before = product(aside, aside), x = product(a, a), y = scaled(x, 3);
  const Gradients g = tape.gradient(y, {a, x, aside, a, unused}, {},
                                    {.on_complete = [&](const Tensor& of, const Tensor& gradient) {
                                      log.emplace_back(of.name());
                                      has_gradient.push_back(gradient.defined());
                                    }});
  CHECK(log == Words{"unused", "a", "aside"});
  CHECK(has_gradient == std::vector<bool>{false, true, false});
  CHECK(g.reached(a));
  CHECK_FALSE(g.reached(aside));
}

TEST_CASE("a leaf that is an output, and one among consumed operations, are told of") {
  const Tensor a = named("a", 2), b = named("b", 3);
  Words log;
  Tape tape;
  CHECK(tape.gradient(product(a, b), {a})[a].item() == 3);
  const Tensor y = product(b, b);  // a's only use was consumed, b's first one too
  const std::vector<Tensor> ys{y, a}, wrt{b, a};
  const Gradients g = tape.gradient(ys, wrt, {}, {.on_complete = note(log)});
  CHECK(log == Words{"a", "b"});
  CHECK(g[a].item() == 1);
  CHECK(g[b].item() == 6);
}

TEST_CASE("the hook is given the gradient that the call returns, and may write to it") {
  const Tensor x = leaf({1, 2}, {2});
  const void* given = nullptr;
  const auto halve = [&](const Tensor&, const Tensor& gradient) {
    given = gradient.any_view().data;
    scale_in_place(gradient.view(), 0.5);
  };
  Tape tape;
  const Tensor y = total(scaled(x, 8));
  const Gradients g = tape.gradient(y, {x}, {}, {.on_complete = halve});
  CHECK(g[x].to_vector() == Values{4, 4});
  CHECK(g[x].any_view().data == given);
  CHECK(g[x].storage()->category() == Category::gradient);
}

TEST_CASE("what the hook computes is not recorded") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x);
  const std::size_t size = tape.size();
  tape.gradient(y, {x}, {}, {.on_complete = [&](const Tensor& of, const Tensor& gradient) {
                  CHECK(product(of, gradient).item() == 18);
                }});
  CHECK(tape.size() == size);
}

TEST_CASE("a hook that throws ends the call, and the tape goes on") {
  const Tensor x = leaf(3);
  const GradientOptions throws{
      .on_complete = [](const Tensor&, const Tensor&) { throw ValueError("hook", "on purpose"); }};
  Tape tape;
  const Tensor y = product(x, x);
  GradientOptions kept = throws;
  kept.keep = true;
  check_throws(ErrorKind::value, {"on purpose"}, [&] { tape.gradient(y, {x}, {}, kept); });
  check_throws(ErrorKind::value, {"on purpose"}, [&] { tape.gradient(y, {x}, {}, throws); });
  check_throws(ErrorKind::state, {"consumed"}, [&] { tape.gradient(y, {x}); });
  CHECK(tape.gradient(scaled(x, 4), {x})[x].item() == 4);
}

TEST_CASE("create_graph with a hook, and walking the tape from a hook, are refused") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x);
  Words log;
  check_throws(ErrorKind::state, {"gradient", "on_complete", "create_graph"}, [&] {
    tape.gradient(y, {x}, {}, {.create_graph = true, .on_complete = note(log)});
  });
  CHECK(log.empty());
  const LeafHook walks = [&](const Tensor&, const Tensor&) { tape.gradient(y, {x}); };
  check_throws(ErrorKind::state, {"gradient", "hook"},
               [&] { tape.gradient(y, {x}, {}, {.keep = true, .on_complete = walks}); });
  CHECK(tape.gradient(y, {x})[x].item() == 6);
}
