// Tape::gradient and Gradients (core/tape.h), with the core's toy operations.
#include "support/checks.h"
#include "support/toy_operations.h"

#include <tapehead/core/memory.h>
#include <tapehead/core/scope.h>

using namespace tapehead;
using tests::check_throws;
using toy::constant;
using toy::leaf;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

using Values = std::vector<double>;

// A rule that gives up: for errors in the middle of a walk.
struct BrokenNode final : Node {
  BrokenNode() : Node("broken") {}
  Grads backward(Tensor, const Wanted&) override { throw ValueError("broken", "on purpose"); }
};
Tensor broken(const Tensor& x) {
  return record<BrokenNode>(copied("broken", x), {&x}, [](BrokenNode&) {});
}

// A rule whose gradient is what a test says.
struct OddRuleNode final : Node {
  OddRuleNode() : Node("odd_rule") {}
  std::function<Grads(const Tensor&)> rule;
  Grads backward(Tensor g, const Wanted&) override { return rule(g); }
};
Tensor odd_rule(const Tensor& x, std::function<Grads(const Tensor&)> rule) {
  return record<OddRuleNode>(copied("odd_rule", x), {&x},
                             [&](OddRuleNode& node) { node.rule = std::move(rule); });
}

}  // namespace

// ---- gradient -----------------------------------------------------------------------------------

TEST_CASE("gradient takes intermediates, the output itself, and the same tensor twice") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x), z = scaled(y, 5);
  const Gradients g = tape.gradient(z, {y, x, z, x});
  CHECK(g.size() == 3);
  CHECK(g[y].item() == 5);
  CHECK(g[x].item() == 30);
  CHECK(g[z].item() == 1);
}

TEST_CASE("an intermediate asked for keeps its gradient while the walk goes on through it") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const Tensor y = scaled(x, 2), z = total(product(y, y));
  const Gradients g = tape.gradient(z, {y, x});
  CHECK(g[y].to_vector() == Values{4, 8});
  CHECK(g[x].to_vector() == Values{8, 16});
}

TEST_CASE("a seed weighs the output, and several outputs add up in one walk") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const Tensor y = product(x, x), z = scaled(x, 10), unused = scaled(x, 1000);
  const std::vector<Tensor> ys{y, z, unused};
  const std::vector<Tensor> seeds{from_vector<double>({1, 100}, {2}),
                                  from_vector<double>({1, 1}, {2}), Tensor()};
  const Gradients g = tape.gradient(ys, std::span(&x, 1), seeds);
  CHECK(g[x].to_vector() == Values{2 + 10, 400 + 10});
}

TEST_CASE("an output that is a leaf has the seed for a gradient") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const Tensor seed = from_vector<double>({3, 4}, {2});
  const Gradients g = tape.gradient(x, {x}, seed);
  CHECK(g[x].to_vector() == Values{3, 4});
  CHECK_FALSE(g[x].storage() == seed.storage());
}

TEST_CASE("a leaf that was not reached reads as zeros and says so; a constant is a StateError") {
  const Tensor x = leaf(2), other = leaf({1, 1}, {2}), k = constant(3);
  Tape tape;
  const Tensor y = product(x, k);
  const Gradients g = tape.gradient(y, {x, other}, {}, {.keep = true});
  CHECK(g.reached(x));
  CHECK_FALSE(g.reached(other));
  CHECK(g[other].to_vector() == Values{0, 0});
  check_throws(ErrorKind::state, {"gradient", "wrt", "f64 ()", "constant"},
               [&] { tape.gradient(y, {k}); });
  check_throws(ErrorKind::state, {"gradient", "y", "constant"}, [&] { tape.gradient(k, {x}); });
  check_throws(ErrorKind::state, {"Gradients", "not among"}, [&] { g[y]; });
  check_throws(ErrorKind::value, {"undefined"}, [&] { tape.gradient(Tensor(), {x}); });
}

TEST_CASE(
    "the seed must have the shape and dtype of the output, and may be left out for one element") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const Tensor y = scaled(x, 2);
  check_throws(ErrorKind::shape, {"gradient", "f64 (2)", "seed"}, [&] { tape.gradient(y, {x}); });
  check_throws(ErrorKind::shape, {"f64 (2)", "f64 (1)"},
               [&] { tape.gradient(y, {x}, from_vector<double>({1}, {1})); });
  check_throws(ErrorKind::dtype, {"y", "seed", "f32 (2)"}, [&] {
    tape.gradient(y, {x}, from_vector<float>({1, 1}, {2}));
  });
  const std::vector<Tensor> ys{y, y}, seeds{y.detach()};
  check_throws(ErrorKind::value, {"1 seeds for 2 outputs"},
               [&] { tape.gradient(ys, std::span(&x, 1), seeds); });
  // None of these calls consumed the record.
  CHECK(tape.gradient(y, {x}, from_vector<double>({1, 1}, {2}))[x].to_vector() == Values{2, 2});
}

TEST_CASE("a recorded seed is an output's weight, and its gradient flows under create_graph") {
  const Tensor x = leaf(3), v = leaf(5);
  Tape tape;
  const Tensor y = product(x, x);
  const Tensor dx = tape.gradient(y, {x}, v, {.create_graph = true})[x];  // 2 x v
  CHECK(dx.item() == 30);
  const Gradients second = tape.gradient(dx, {x, v});
  CHECK(second[x].item() == 10);
  CHECK(second[v].item() == 6);
}

TEST_CASE("value_and_grad gives the detached value and the gradients") {
  const Tensor x = leaf(3);
  const auto [value, gradients] = value_and_grad([&] { return product(x, x); }, std::span(&x, 1));
  CHECK(value.item() == 9);
  CHECK_FALSE(value.requires_grad());
  CHECK(gradients[x].item() == 6);
}

// ---- consumed records ---------------------------------------------------------------------------

TEST_CASE("a second call after the record was consumed is a StateError that names keep") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = scaled(x, 2), z = product(x, x);
  tape.gradient(z, {x});
  for (const Tensor& consumed : {y, z})  // the rule that saved something, and the one that did not
    check_throws(ErrorKind::state, {"consumed", "keep"}, [&] { tape.gradient(consumed, {x}); });
  const Tensor later = product(y, y);  // built on a consumed record
  check_throws(ErrorKind::state, {"scaled", "consumed", "keep"},
               [&] { tape.gradient(later, {x}); });
}

TEST_CASE(
    "what is recorded after a consuming call can be walked, as long as it needs nothing older") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(x, x);
  tape.gradient(y, {x});
  CHECK(tape.gradient(scaled(x, 7), {x})[x].item() == 7);
  const Tensor z = product(y, scaled(x, 1));
  CHECK_THROWS_AS(tape.gradient(z, {x}), StateError);
}

TEST_CASE("keep lets the record be walked again, with the same result each time") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(product(x, x), x);
  for (int i = 0; i < 3; ++i) CHECK(tape.gradient(y, {x}, {}, {.keep = true})[x].item() == 27);
  CHECK(tape.gradient(y, {x})[x].item() == 27);
}

TEST_CASE("an error in mid-walk consumes the record, unless it was to be kept") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(broken(product(x, x)), x);
  CHECK_THROWS_AS(tape.gradient(y, {x}, {}, {.keep = true}), ValueError);
  CHECK_THROWS_AS(tape.gradient(y, {x}), ValueError);
  check_throws(ErrorKind::state, {"consumed", "keep"}, [&] { tape.gradient(y, {x}); });
  CHECK(tape.gradient(product(x, x), {x})[x].item() == 6);  // the tape goes on
}

TEST_CASE("an error under create_graph leaves the tape recording and the record whole") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = product(broken(x), x);
  CHECK_THROWS_AS(tape.gradient(y, {x}, {}, {.create_graph = true}), ValueError);
  CHECK(Tape::recording() == &tape);
  CHECK_THROWS_AS(tape.gradient(y, {x}), ValueError);  // not a StateError: it was kept
}

TEST_CASE("a rule that returns no gradient, or one of another shape or dtype, is named") {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor seed = from_vector<double>({1, 1}, {2});
  Tape tape;
  const auto walk = [&](std::function<Grads(const Tensor&)> rule) {
    return [&tape, &x, &seed, rule] { tape.gradient(odd_rule(x, rule), {x}, seed); };
  };
  check_throws(ErrorKind::state, {"odd_rule", "input 0", "missing"},
               walk([](const Tensor&) { return Grads(Tensor()); }));
  check_throws(ErrorKind::state, {"odd_rule", "input 0", "missing"},
               walk([](const Tensor&) { return Grads(); }));
  check_throws(ErrorKind::state, {"odd_rule", "f64 ()", "f64 (2)"},
               walk([](const Tensor& g) { return Grads(total(g)); }));
  check_throws(ErrorKind::state, {"odd_rule", "f32 (2)", "f64 (2)"}, walk([](const Tensor&) {
                 return Grads(from_vector<float>({1, 1}, {2}));
               }));
}

TEST_CASE("a rule that walks its own tape is a StateError, and the record is consumed as ever") {
  struct WalkingNode final : Node {
    WalkingNode() : Node("walking") {}
    std::function<void()> walk;
    Grads backward(Tensor g, const Wanted&) override {
      walk();
      return {g};
    }
  };
  const Tensor x = leaf({1, 2}, {2});
  for (const bool keep : {false, true}) {
    Tape tape;
    const Tensor s = product(x, x);
    const Tensor y = record<WalkingNode>(copied("walking", s), {&s}, [&](WalkingNode& node) {
      node.walk = [&] { tape.gradient(s, {x}, from_vector<double>({1, 1}, {2}), {.keep = keep}); };
    });
    const Tensor seed = from_vector<double>({1, 1}, {2});
    check_throws(ErrorKind::state, {"gradient: ", "is being computed", "rule"},
                 [&] { tape.gradient(y, {x}, seed, {.keep = true}); });
    CHECK(tape.gradient(s, {x}, seed)[x].to_vector() == Values{2, 4});
  }
}

TEST_CASE("a rule that returns more gradients than there are inputs is named") {
  struct TwoForOne final : Node {
    TwoForOne() : Node("two_for_one") {}
    Grads backward(Tensor g, const Wanted&) override { return {g, g}; }
  };
  const Tensor x = parameter(from_vector<float>({1, 1}, {2}));
  Tape tape;
  const Tensor y = record<TwoForOne>(from_vector<float>({1, 1}, {2}), {&x}, [](TwoForOne&) {});
  check_throws(ErrorKind::state, {"two_for_one", "gradient of input 1", "1 inputs"}, [&] {
    tape.gradient(y, {x}, from_vector<float>({1, 1}, {2}));
  });
}

TEST_CASE("errors of a rule carry the module path of the operation that it differentiates") {
  const Tensor x = leaf(3);
  Tape tape;
  Tensor y;
  {
    const ModuleScope outer("blocks.0"), inner("attention");
    y = broken(x);
  }
  check_throws(ErrorKind::value, {"in blocks.0.attention"}, [&] { tape.gradient(y, {x}); });
  CHECK(ModuleScope::path().empty());
}

// ---- second order -------------------------------------------------------------------------------

TEST_CASE("create_graph puts the walk on the same tape, and every order of derivative follows") {
  const Tensor x = leaf(2);
  Tape tape;
  const Tensor y = product(product(product(x, x), x), x);  // x^4
  Tensor d = y;
  for (const double expected : {32.0, 48.0, 48.0, 24.0}) {
    d = tape.gradient(d, {x}, {}, {.create_graph = true})[x];
    CHECK(d.item() == expected);
  }
}

TEST_CASE("fan-in under create_graph is itself recorded") {
  const Tensor x = leaf(2);
  Tape tape;
  const Tensor y = accumulate(product(x, x), scaled(x, 3));
  const Tensor d = tape.gradient(y, {x}, {}, {.create_graph = true})[x];
  CHECK(d.item() == 7);
  CHECK(tape.gradient(d, {x})[x].item() == 2);
}

TEST_CASE("a gradient without create_graph is a constant, with a storage of its own") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const std::size_t before = tape.size();
  const Tensor y = total(x);
  const Gradients g = tape.gradient(y, {x});
  CHECK(tape.size() == before + 1);
  CHECK_FALSE(g[x].requires_grad());
  CHECK(g[x].is_contiguous());  // though the rule handed over one number with stride 0
  CHECK(g[x].storage()->bytes() == 16);
  CHECK(g[x].storage()->category() == Category::gradient);
}

// ---- Gradients ----------------------------------------------------------------------------------

TEST_CASE("a constant gradient never shares its values with the seed, also under create_graph") {
  const Tensor x = leaf({1, 2}, {2}), w = leaf({3, 4}, {2});
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    const Tensor seed = from_vector<double>({5, 6}, {2});
    Tape tape;
    const Tensor y = accumulate(x, w);
    const Gradients g = tape.gradient(y, {x, w, y}, seed, {.create_graph = create_graph});
    for (const Tensor& of : {x, w, y}) {
      REQUIRE_FALSE(g[of].requires_grad());
      REQUIRE(g[of].to_vector() == Values{5, 6});
    }
    CHECK(g[x].storage() != seed.storage());
    CHECK(g[w].storage() != seed.storage());
    CHECK(g[y].storage() != seed.storage());
    CHECK(g[x].storage() != g[w].storage());
    scale_in_place(g[x].view(), 0);
    CHECK(seed.to_vector() == Values{5, 6});
    CHECK(g[w].to_vector() == Values{5, 6});
  }
}

TEST_CASE("Gradients add and scale for micro-batches") {
  const Tensor x = leaf({1, 2}, {2}), w = leaf(3), never = leaf(1);
  const std::vector<Tensor> wrt{x, w, never};
  const auto batch = [&](double k, bool uses_w) {
    Tape tape;
    const Tensor y = scaled(total(product(x, x)), k);
    return tape.gradient(uses_w ? product(y, w) : y, wrt);
  };
  Gradients sum = batch(1, false);
  CHECK_FALSE(sum.reached(w));
  sum += batch(1, true);
  sum *= 0.5;
  CHECK(sum[x].to_vector() == Values{(2 + 6) * 0.5, (4 + 12) * 0.5});
  CHECK(sum.reached(w));
  CHECK(sum[w].item() == 2.5);
  CHECK_FALSE(sum.reached(never));
  CHECK(sum.of().size() == 3);
}

TEST_CASE("Gradients stay as they were when memory for their sum is short") {
  const Tensor x = leaf(2), w = leaf(3);
  const auto gradients_of = [&](bool with_w) {
    Tape tape;
    const Tensor square_of_x = product(x, x);
    return tape.gradient(with_w ? product(square_of_x, w) : square_of_x, {x, w});
  };
  Gradients sum = gradients_of(false);
  const Gradients more = gradients_of(true);
  {
    const FailNthAllocation failure(1);
    CHECK_THROWS_AS(sum += more, OutOfMemoryError);
  }
  CHECK(sum[x].item() == 4);
  CHECK_FALSE(sum.reached(w));
  sum += more;
  CHECK(sum[x].item() == 16);
  CHECK(sum[w].item() == 4);
}

TEST_CASE("Gradients of other tensors, or recorded ones, do not add, and stay as they were") {
  const Tensor x = leaf(2), w = leaf(3);
  Tape tape;
  const Tensor y = product(product(x, x), w);
  Gradients of_x = tape.gradient(y, {x}, {}, {.keep = true});
  const Gradients of_w = tape.gradient(y, {w}, {}, {.keep = true});
  const Gradients both = tape.gradient(y, {x, w}, {}, {.keep = true});
  CHECK_THROWS_AS(of_x += of_w, StateError);
  CHECK_THROWS_AS(of_x += both, StateError);
  Gradients recorded = tape.gradient(y, {x}, {}, {.create_graph = true});
  check_throws(ErrorKind::state, {"Gradients +=", "create_graph"}, [&] { recorded += of_x; });
  check_throws(ErrorKind::state, {"Gradients *=", "create_graph"}, [&] { recorded *= 2; });
  of_x += recorded;  // reading a recorded gradient is fine
  CHECK(of_x[x].item() == 24);
}
