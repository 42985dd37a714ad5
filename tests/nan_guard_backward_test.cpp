// NanGuard in the backward pass, and that it changes nothing.
#include "support/nan_alarm.h"
#include "support/operation_run.h"

#include <tapehead/core/scope.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <memory>

using namespace tapehead;
using namespace tapehead::tests;

// ---- the backward pass -------------------------------------------------------------------------

TEST_CASE("NanGuard names the operation whose rule made the first NaN, and what the rule read") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = leaf({4, 0, 1}, dtype), zero = zeros({3}, dtype);
    const auto report = alarm([&] {
      Tape tape;
      Tensor root;
      {
        const ModuleScope scope("length");
        root = sqrt(mul(x, 1));
      }
      const Tensor y = sum(mul(mul(root, zero), 3));
      const ModuleScope scope("elsewhere");
      tape.gradient(y, {x});
    });
    REQUIRE(report.has_value());
    CHECK(report->is_backward());
    CHECK(report->operation == "sqrt");
    CHECK(report->module == "length");
    CHECK(report->input == 0);
    CHECK(report->element == Dims{1});
    CHECK(std::isnan(report->value));
    REQUIRE(report->operands.size() == 2);
    CHECK(report->operands[0].name == "g");
    CHECK(report->operands[0].there == 0.0);
    CHECK(report->operands[1].name == "y");
    CHECK(report->operands[1].there == 0.0);
    CHECK(report->operands[1].highest == 2);
    CHECK(to_string(*report).starts_with("sqrt: NaN at (1) of the gradient of input 0 "));
    CHECK(to_string(*report).ends_with("y " + describe(zero) +
                                       " is 0 there (from 0 to 2) [in length]"));
  }
}

TEST_CASE("NanGuard tells of which input the gradient is, and reads expanded gradients") {
  const Tensor a = leaf({1, 2}), b = leaf({1e200, 1e-200});
  const auto report = alarm([&] {
    Tape tape;
    const Tensor y = sum(mul(div(a, b), 1e-300));
    tape.gradient(y, {a, b}, full({}, 1e300, DType::f64));
  });
  REQUIRE(report.has_value());
  CHECK(report->operation == "div");
  CHECK(report->input == 1);  // -g y / b = -2e200 / 1e-200
  CHECK(report->element == Dims{1});
  CHECK(report->value == -infinity);
  const Tensor x = leaf({3, 0});
  Tape tape;
  const Tensor root = sum(sqrt(x));
  const auto expanded = alarm([&] { tape.gradient(root, {x}); });
  CHECK(expanded->operands[0].there == 1.0);  // one number stands for the whole gradient
  CHECK(expanded->value == infinity);
}

TEST_CASE("NanGuard sees the overflow of a sum of gradients") {
  const Tensor x = leaf({0, 1e-300});
  for (const bool create_graph : {false, true}) {
    const auto report = alarm([&] {
      Tape tape;
      const Tensor first = mul(x, 1e308), second = mul(x, 1.5e308);
      tape.gradient(add(first, second), {x}, numbers({0.1, 1}), {.create_graph = create_graph});
    });
    REQUIRE(report.has_value());
    CHECK(report->operation == "accumulate");
    CHECK(report->element == Dims{1});
    CHECK(report->value == infinity);
    CHECK(report->operands[0].there == 1.5e308);
    CHECK(report->operands[1].there == 1e308);
  }
}

TEST_CASE("NanGuard looks at gradients of gradients") {
  const Tensor x = leaf({4, 0});
  const auto report = alarm([&] {
    Tape tape;
    const Tensor y = pow(x, 1.5);
    const Tensor dx = tape.gradient(y, {x}, numbers({1, 1}), {.create_graph = true})[x];
    tape.gradient(dx, {x}, numbers({1, 1}));
  });
  REQUIRE(report.has_value());
  CHECK(report->is_backward());
  CHECK(report->operation == "pow_scalar");  // of x^0.5, in the slope
  CHECK(report->element == Dims{1});
  CHECK(report->value == infinity);
}

TEST_CASE(
    "NanGuard throws in mid-walk as any error does: the record is consumed, the tape usable") {
  const Tensor x = leaf({0});
  Tape tape;
  const Tensor y = sum(sqrt(x)), z = sum(square(x));
  {
    const NanGuard guard;
    check_throws(ErrorKind::nan, {"sqrt: inf at (0) of the gradient of input 0"},
                 [&] { tape.gradient(y, {x}); });
  }
  check_throws(ErrorKind::state, {"consumed"}, [&] { tape.gradient(z, {x}); });
  CHECK(tape.gradient(sum(add(x, 1)), {x})[x].to_vector() == std::vector<double>{1});
}

TEST_CASE("NanGuard blames no rule that adds to a gradient which came from outside") {
  const Tensor w = parameter(ones({2, 3}, DType::f64)), x = ones({4, 2}, DType::f64);
  const auto report = alarm([&] {
    Tape tape;
    const Tensor first = matmul(x, w), second = matmul(x, w);
    // The walk comes to `second` first; the rule of `first` adds to its gradient of w in place.
    tape.gradient(std::vector{first, second}, std::vector{w},
                  std::vector{ones({4, 3}, DType::f64), full({4, 3}, not_a_number, DType::f64)});
  });
  CHECK_MESSAGE(!report.has_value(), text_of(report));
}

// ---- it changes nothing ------------------------------------------------------------------------

TEST_CASE("NanGuard changes no result of any operation, and no operation raises a false alarm") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const Numbers plain = run_row(row, make_leaves(row, variation));
    const NanGuard guard;
    CHECK(run_row(row, make_leaves(row, variation)) == plain);
  });
}

TEST_CASE("NanGuard changes no training step: to the bit, also where gradients add up in place") {
  const auto trained = [](bool guarded) {
    std::optional<NanGuard> guard;
    if (guarded) guard.emplace();
    manual_seed(7);
    nn::Gpt model(
        {.vocab_size = 7, .context = 4, .layers = 2, .heads = 2, .dim = 8, .tied_output = true});
    nn::AdamW optimizer(model, {.lr = 0.01});
    const Tensor tokens = randint(0, 7, {2, 4}), targets = randint(0, 7, {8});
    for (int step = 0; step < 3; ++step) {
      Tape tape;
      const Tensor loss = cross_entropy(reshape(model(tokens), {8, 7}), targets);
      optimizer.step(tape.gradient(loss, model.parameters()));
    }
    std::vector<std::vector<float>> values;
    for (const Tensor& p : model.parameters()) values.push_back(p.to_vector<float>());
    return values;
  };
  CHECK(trained(true) == trained(false));
}

TEST_CASE("a NanGuard may die while a rule that it watches runs") {
  const Tensor x = parameter(ones({2}));
  auto guard = std::make_unique<NanGuard>();
  int calls = 0;
  Tape tape;
  const Tensor y = sum(nn::checkpoint(
      [&](const std::vector<Tensor>& in) {
        if (++calls == 2) guard.reset();
        return square(in[0]);
      },
      {x}));
  CHECK(tape.gradient(y, {x})[x].to_vector() == std::vector<double>{2, 2});
  CHECK(guard == nullptr);
}
