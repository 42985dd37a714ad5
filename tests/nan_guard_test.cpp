// NanGuard, forward: the operation that makes the first NaN or infinity is named, with what it
// read; masks raise no alarm; and when a guard watches.
#include "support/checks.h"
#include "support/nan_alarm.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/attention.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <thread>

using namespace tapehead;
using namespace tapehead::tests;

// ---- what is reported --------------------------------------------------------------------------

TEST_CASE("NanGuard names operation, module, element and what was read there") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = tensor({{1, 2, 9}, {4, 5, 9}, {0, -6, 9}}, dtype);
    const Tensor b = tensor({{1, 2}, {4, 0}, {3, 0}}, dtype);
    const ModuleScope blocks("blocks.0"), norm("norm");
    // Both are views. 4 / 0 stands before 0 / 0, but a NaN goes before an infinity.
    const Tensor over = transpose(narrow(a, 1, 0, 2), 0, 1);  // 1 4 0, 2 5 -6
    const Tensor under = select(b, 1, 1);                     // 2 0 0
    const auto report = alarm([&] { div(over, under); });
    REQUIRE(report.has_value());
    CHECK(report->operation == "div");
    CHECK(report->module == "blocks.0.norm");
    CHECK_FALSE(report->is_backward());
    CHECK(report->element == Dims{0, 2});
    CHECK(std::isnan(report->value));
    CHECK_FALSE(report->empty_row_dim.has_value());
    REQUIRE(report->operands.size() == 2);
    CHECK(report->operands[0].name == "input 0");
    CHECK(report->operands[0].there == 0.0);
    CHECK(report->operands[0].lowest == -6);
    CHECK(report->operands[0].highest == 5);
    CHECK(report->operands[1].there == 0.0);
    CHECK(report->operands[1].highest == 2);
  }
}

TEST_CASE("NanGuard throws an error that says it all, and the tape stays as it was") {
  const Tensor x = leaf({2, 0.5, 0});
  Tape tape;
  const ModuleScope scope("head");
  const Tensor y = mul(x, x);
  const NanGuard guard;
  try {
    log(y);
    FAIL("nothing was thrown");
  } catch (const NanError& error) {
    CHECK(error.kind() == ErrorKind::nan);
    const std::string text =
        "log: -inf at (2) of the result f64 (3), though all operands are "
        "finite: input 0 f64 (3) is 0 there (from 0 to 4) [in head]";
    CHECK(error.what() == text);
    CHECK(to_string(error.report()) == text);
    CHECK(guard.report() == &error.report());
  }
  CHECK(tape.size() == 1);
  CHECK(tape.gradient(sum(y), {x})[x].to_vector() == std::vector<double>{4, 1, 0});
}

TEST_CASE("NanGuard names the first operation, not the one where NaN comes out") {
  const auto report = alarm([] {
    const Tensor zero = numbers({1, 0});
    mul(log(zero), zero);
  });
  REQUIRE(report.has_value());
  CHECK(report->operation == "log");
  CHECK(report->element == Dims{1});
  CHECK(report->value == -infinity);
}

TEST_CASE(
    "NanGuard sees overflow, with and without a tape, also where an operation could work in "
    "place") {
  const auto overflow = [](DType dtype, double exponent) {
    return alarm([&] { exp(numbers({1, exponent}, dtype)); });
  };
  CHECK_FALSE(overflow(DType::f32, 88).has_value());
  CHECK_FALSE(overflow(DType::f64, 709).has_value());
  for (const auto& report : {overflow(DType::f32, 89), overflow(DType::f64, 710)}) {
    REQUIRE(report.has_value());
    CHECK(report->value == infinity);
    CHECK(report->operands[0].there > 88);  // not overwritten by the result
  }
  const Tensor x = leaf({1, 710});
  Tape tape;
  CHECK(alarm([&] { exp(x); })->operation == "exp");
  CHECK(alarm([&] { exp(mul(x, 1.5)); })->operands[0].there == 1065.0);
}

TEST_CASE("NanGuard reports a NaN that infinities end in") {
  const Tensor unlimited = numbers({1, infinity});
  const auto report = alarm([&] { sub(unlimited, unlimited); });
  REQUIRE(report.has_value());
  CHECK(report->operation == "sub");
  CHECK(report->element == Dims{1});
  CHECK(report->operands[1].there == infinity);
}

TEST_CASE("NanGuard gives what a matrix product read as a range, for it reads no single element") {
  const auto report = alarm([] {
    matmul(full({2, 3}, 1e200, DType::f64), full({3, 4}, -1e200, DType::f64));
  });
  REQUIRE(report.has_value());
  CHECK(report->operation == "matmul");
  CHECK(report->value == -infinity);
  REQUIRE(report->operands.size() == 2);
  CHECK_FALSE(report->operands[0].there.has_value());
  CHECK(report->operands[0].highest == 1e200);
  CHECK(report->operands[1].lowest == -1e200);
}

// ---- masks -------------------------------------------------------------------------------------

TEST_CASE("NanGuard names the row in which softmax sees nothing") {
  const Tensor hidden = from_vector<double>({0, 1, 0, 1, 1, 1, 0, 0, 0}, {3, 3}, DType::boolean);
  const Tensor scores = arange(18, DType::f64);
  for (const bool along_last : {true, false}) {
    const NanGuard guard;
    const ModuleScope scope("blocks.1.attn");
    const Tensor mask = along_last ? hidden : transpose(hidden, 0, 1);
    const Tensor masked = masked_fill(reshape(scores, {2, 3, 3}), mask, -infinity);
    check_throws(ErrorKind::nan,
                 {"softmax: NaN at ",
                  along_last ? "row (0, 1, :) of input 0 is -inf throughout"
                             : "row (0, :, 1) of input 0 is -inf throughout",
                  "it sees nothing", "in blocks.1.attn"},
                 [&] { softmax(masked, along_last ? -1 : 1); });
    REQUIRE(guard.report());
    CHECK(guard.report()->empty_row_dim == (along_last ? 2 : 1));
  }
}

TEST_CASE("NanGuard takes the infinities of masks for what they are") {
  const Tensor hidden = from_vector<double>({0, 1, 1, 0}, {2, 2}, DType::boolean);
  const Tensor x = leaf({1, 2, 3, 4});
  const auto report = alarm([&] {
    Tape tape;
    Tensor scores = masked_fill(reshape(x, {2, 2}), hidden, -infinity);
    const Tensor bias = where(hidden, -infinity, zeros({2, 2}, DType::f64));
    scores = add(mul(scores, 0.5), bias);
    const Tensor weights = softmax(scores, -1);
    const Tensor logs = log_softmax(scores, -1);
    const Tensor largest = amax(scores, {1});
    tape.gradient(std::vector{weights, logs, largest}, std::vector{x},
                  std::vector{ones({2, 2}, DType::f64), zeros({2, 2}, DType::f64), largest});
    masked_fill(x, reshape(hidden, {4}), not_a_number);
    full({2}, infinity);
  });
  CHECK_MESSAGE(!report.has_value(), text_of(report));
}

TEST_CASE("NanGuard lets attention with hidden rows pass, forward and backward, on both paths") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const nn::AttentionPath path : {nn::AttentionPath::composed, nn::AttentionPath::fused}) {
      manual_seed(3);
      const Tensor q = parameter(randn({2, 3, 4, 5}, dtype)),
                   k = parameter(randn({2, 3, 6, 5}, dtype)),
                   v = parameter(randn({2, 3, 6, 2}, dtype));
      std::vector<double> bias_values(24, 0.25);
      for (std::size_t i = 6; i < 12; ++i) bias_values[i] = -infinity;  // query 1 sees nothing
      const Tensor bias = from_vector(bias_values, {4, 6}, dtype);
      const nn::Mask mask = nn::Mask::padding({6, 0}) & nn::Mask::causal(1);
      const Tensor upstream = randn({2, 3, 4, 2}, dtype);
      for (const Tensor& added : {Tensor(), bias}) {
        const NanGuard guard;
        Tape tape;
        const Tensor y = nn::attention(q, k, v, {.mask = mask, .bias = added, .path = path});
        tape.gradient(y, {q, k, v}, upstream);
        CHECK(guard.report() == nullptr);
      }
    }
}

TEST_CASE("NanGuard blames no operation for what came from outside") {
  const auto report = alarm([] {
    const Tensor data = numbers({1, not_a_number, infinity});
    const Tensor x = parameter(clone(data));
    Tape tape;
    const Tensor y = mul(exp(x), data);
    tape.gradient(y, {x}, ones({3}, DType::f64), {.keep = true});  // the rules read what was saved
    tape.gradient(y, {x}, data);
    softmax(y, 0);
  });
  CHECK_MESSAGE(!report.has_value(), text_of(report));
}

// ---- when a guard watches ----------------------------------------------------------------------

TEST_CASE("NanGuard reports once") {
  const Tensor zero = numbers({0});
  {
    const NanGuard guard;
    check_throws(ErrorKind::nan, {"log"}, [&] { log(zero); });
    div(zero, zero);
    CHECK(guard.report()->operation == "log");
  }
  const NanGuard guard({.raise = false});
  log(zero);
  const NanReport* first = guard.report();
  div(zero, zero);
  CHECK(guard.report() == first);
  CHECK(first->operation == "log");
}

TEST_CASE("of nested NanGuards the innermost watches") {
  const Tensor zero = numbers({0});
  const NanGuard outer({.raise = false});
  {
    const NanGuard inner({.raise = false});
    log(zero);
    div(zero, zero);  // not the outer one's, though the inner one has had its alarm
    CHECK(inner.report()->operation == "log");
  }
  CHECK(outer.report() == nullptr);
  reciprocal(zero);
  REQUIRE(outer.report());
  CHECK(outer.report()->operation == "reciprocal");
}

TEST_CASE("a NanGuard watches its own thread only") {
  const Tensor zero = numbers({0});
  const NanGuard guard;
  std::optional<NanReport> of_thread;
  std::thread([&] {
    div(zero, zero);  // nobody watches here yet
    of_thread = alarm([&] { log(zero); });
  }).join();
  REQUIRE(of_thread.has_value());
  CHECK(of_thread->operation == "log");
  CHECK(guard.report() == nullptr);
}

TEST_CASE("NanGuard does nothing in a dry run, which stays the plan of a run without a guard") {
  const auto peak_of = [](bool guarded) {
    std::optional<NanGuard> guard;
    if (guarded) guard.emplace();
    const DryRun dry;
    const Tensor x = parameter(zeros({1000}));
    Tape tape;
    Tensor y = exp(mul(x, 2));
    y = log(add(std::move(y), -1));
    tape.gradient(sum(y), {x});
    return memory_stats().peak;
  };
  CHECK(peak_of(true) == peak_of(false));
}

TEST_CASE("NanGuard looks at half floats as at others") {
  for (const DType half : {DType::bf16, DType::f16}) {
    CHECK_FALSE(alarm([&] { to(numbers({1, 2}), half); }).has_value());
    const auto report = alarm([&] { to(numbers({1, 1e300}), half); });
    REQUIRE(report.has_value());
    CHECK(report->element == Dims{1});
    CHECK(report->value == infinity);
    CHECK(report->operands[0].there == 1e300);
  }
}

TEST_CASE("NanGuard takes -inf for the log of the sum of nothing, but no NaN for its mean") {
  const Tensor nothing = zeros({2, 0});
  CHECK_FALSE(alarm([&] { logsumexp(nothing, {1}); }).has_value());
  const auto report = alarm([&] { mean(nothing, {1}); });
  REQUIRE(report.has_value());
  CHECK(to_string(*report).ends_with("input 0 f32 (2, 0) (without a number)"));
}
