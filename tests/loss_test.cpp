// Losses: what the table of operation cases does not say of them. Names open with the id of the
// pitfall that a test is about.
#include "support/checks.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>

namespace tapehead::tests {
namespace {

const double log2 = std::log(2.0), log3 = std::log(3.0);

using Values = std::vector<double>;

Tensor targets(std::vector<std::int64_t> values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return from_vector(values, shape, DType::i64);
}

struct LossAndGradient {
  Values loss, gradient;
};

template <class F>
LossAndGradient run(Tensor x, F loss_of) {
  const Tensor leaf = parameter(std::move(x));
  Tape tape;
  const Tensor loss = loss_of(leaf);
  const Tensor g = tape.gradient(loss, {leaf}, ones_like(loss))[leaf];
  return {loss.to_vector(), g.to_vector()};
}

LossAndGradient cross_entropy_of(Tensor logits, const Tensor& target, CrossEntropyOptions options) {
  return run(std::move(logits), [&](const Tensor& x) { return cross_entropy(x, target, options); });
}

void check_close(const Values& got, const Values& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= tolerance);
}

TEST_CASE("CE-1: large logits do not overflow") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto [loss, gradient] =
        cross_entropy_of(tensor({{-431, 279, 427}}, dtype), targets({0}), {});
    CHECK(loss[0] == doctest::Approx(858).epsilon(1e-12));
    CHECK(gradient[0] == -1);
    // exp(279 - 427); in float32 that is 0.
    if (dtype == DType::f64) CHECK(gradient[1] == doctest::Approx(std::exp(-148)).epsilon(1e-12));
    else CHECK(gradient[1] == 0);
    CHECK(gradient[2] == 1);
  }
}

TEST_CASE("CE-1: the gradient is right where the logsumexp itself is too coarse a number") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double v : {1e7, 1e15, 1e16, 1e30}) {
      CAPTURE(v);
      const auto [loss, gradient] = cross_entropy_of(tensor({{v, v, 0}}, dtype), targets({0}), {});
      // log(2) is rounded to the dtype.
      CHECK(std::abs(loss[0] - log2) <= (dtype == DType::f32 ? 0x1p-25 : 0));
      check_close(gradient, {-0.5, 0.5, 0}, dtype == DType::f32 ? 0x1p-24 : 0x1p-52);
      const auto [smooth_loss, smooth_gradient] =
          cross_entropy_of(tensor({{v, v}}, dtype), targets({0}), {.label_smoothing = 0.5});
      check_close(smooth_loss, {log2}, 0x1p-24);
      check_close(smooth_gradient, {-0.25, 0.25}, dtype == DType::f32 ? 0x1p-24 : 0x1p-52);
    }
}

const Values three_rows = {0, 0, 0, 0, 0, log3};

TEST_CASE("CE-2: the mean is over the targets that count") {
  const Tensor target = targets({0, -100, 1});
  const auto loss = [&](Reduction reduction) {
    return cross_entropy_of(from_vector(three_rows, {3, 2}), target, {.reduction = reduction});
  };
  const LossAndGradient mean = loss(Reduction::mean);
  check_close(mean.loss, {(log2 + std::log(4.0 / 3)) / 2}, 1e-15);
  check_close(mean.gradient, {-0.25, 0.25, 0, 0, 0.125, -0.125}, 1e-15);
  check_close(loss(Reduction::none).loss, {log2, 0, std::log(4.0 / 3)}, 1e-15);
  check_close(loss(Reduction::sum).loss, {log2 + std::log(4.0 / 3)}, 1e-15);
}

TEST_CASE("CE-3: with all targets ignored the mean is NaN, and every gradient is 0") {
  const Tensor logits = tensor({{0, 1}, {2, 3}}, DType::f64), target = targets({-100, -100});
  for (const auto reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
    const auto [loss, gradient] =
        cross_entropy_of(mul(logits, 1), target, {.reduction = reduction});
    if (reduction == Reduction::mean) CHECK(std::isnan(loss[0]));
    else
      for (const double value : loss) CHECK(value == 0);
    CHECK(gradient == Values(4, 0.0));
  }
}

TEST_CASE("CE-4: smoothing, weights and ignored targets agree on what counts") {
  const CrossEntropyOptions options{.label_smoothing = 0.1,
                                    .weight = tensor({0.2, 0.3}, DType::f64)};
  const auto [loss, gradient] =
      cross_entropy_of(tensor({{1, 2}, {3, 0.4}}, DType::f64), targets({-100, 1}), options);
  const auto [one, one_gradient] =
      cross_entropy_of(tensor({{3, 0.4}}, DType::f64), targets({1}), options);
  CHECK(loss[0] == doctest::Approx(2.540451).epsilon(1e-6));
  CHECK(loss == one);
  CHECK(gradient == Values{0, 0, one_gradient[0], one_gradient[1]});
  CHECK(one_gradient[0] == doctest::Approx(-one_gradient[1]).epsilon(1e-12));
}

TEST_CASE("CE-6: binary cross entropy of extreme logits") {
  const Tensor target = tensor({0, 1, 1, 0});
  const auto [loss, gradient] = run(tensor({100, -100, 100, -100}), [&](const Tensor& x) {
    return binary_cross_entropy_with_logits(x, target, Reduction::none);
  });
  CHECK(loss[0] == 100);
  CHECK(loss[1] == 100);
  check_close(gradient, {1, -1, 0, 0}, 1e-40);
  check_close({loss[2], loss[3]}, {0, 0}, 1e-40);
}

TEST_CASE("OPT-6: micro-batches add up with sums and one division") {
  // Token losses 2, 2, 2 and 4, each with the slope 1: the mean is 2.5, the mean of means 3.
  const Tensor w = parameter(tensor(1, DType::f64));
  const Tensor first = tensor({1, 1, 1}, DType::f64), second = tensor({3}, DType::f64);
  double total = 0;
  Gradients gradients;
  for (const Tensor& part : {first, second}) {
    Tape tape;
    const Tensor loss = sum(add(part, w));
    total += loss.item();
    Gradients of_part = tape.gradient(loss, {w});
    if (gradients.size() == 0) gradients = std::move(of_part);
    else gradients += of_part;
  }
  gradients *= 1.0 / 4;
  CHECK(total / 4 == 2.5);
  CHECK(gradients[w].item() == 1);
}

TEST_CASE("OPT-6: cross entropy over micro-batches, by sums, is that of the whole batch") {
  const Tensor target = targets({0, -100, 1});
  const auto whole = cross_entropy_of(from_vector(three_rows, {3, 2}), target, {});
  double total = 0;
  for (const auto& [start, length] : {std::pair{0, 2}, std::pair{2, 1}}) {
    const Tensor logits = narrow(from_vector(three_rows, {3, 2}), 0, start, length);
    total += cross_entropy(logits, narrow(target, 0, start, length), {.reduction = Reduction::sum})
                 .item();
  }
  CHECK(total / 2 == doctest::Approx(whole.loss[0]).epsilon(1e-15));
}

TEST_CASE(
    "Infinite or NaN logits of an ignored target leave no trace, at the second order either") {
  const Tensor x = parameter(tensor({{infinity, std::nan("")}, {1, 2}}, DType::f64));
  Tape tape;
  const Tensor loss = cross_entropy(x, targets({-100, 0}));
  const Tensor g = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
  const Tensor h = tape.gradient(g, {x}, reshape(arange(4, DType::f64), {2, 2}))[x];
  const double p = 1 / (1 + std::exp(1)), slope = p * (1 - p);
  check_close(g.to_vector(), {0, 0, p - 1, 1 - p}, 1e-15);
  check_close(h.to_vector(), {0, 0, slope * (2 - 3), slope * (3 - 2)}, 1e-15);
}

TEST_CASE("The gradient at a target of almost certain probability does not cancel") {
  const auto [loss, gradient] = cross_entropy_of(tensor({{40, 0}}, DType::f64), targets({0}), {});
  CHECK(gradient[0] == doctest::Approx(-std::exp(-40)).epsilon(1e-12));
  CHECK(gradient[1] == doctest::Approx(std::exp(-40)).epsilon(1e-12));
}

TEST_CASE("Cross entropy is nll_loss of log_softmax, for every shape, reduction and weight") {
  Generator generator(2);
  const Tensor logits = randn({4, 5, 2, 3}, DType::f64, generator);
  const Tensor target = randint(0, 5, {4, 2, 3}, generator);
  const Tensor weight = rand({5}, DType::f64, generator);
  for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    for (const Tensor& w : {Tensor(), weight}) {
      const Tensor upstream = reduction == Reduction::none ? randn({4, 2, 3}, DType::f64, generator)
                                                           : tensor(0.7, DType::f64);
      const Tensor x = parameter(mul(logits, 1));
      Tape tape;
      const Tensor fused =
          cross_entropy(x, target, {.ignore_index = 3, .reduction = reduction, .weight = w});
      const Tensor lp = log_softmax(x, 1);
      const Tensor composed = nll_loss(lp, target, 3, reduction, w);
      // Sums of a few terms near 1, added in another order.
      CHECK(allclose(fused, composed, 1e-13, 1e-13));
      const Tensor g = tape.gradient(fused, {x}, upstream, {.keep = true})[x];
      CHECK(allclose(g, tape.gradient(composed, {x}, upstream)[x], 1e-13, 1e-13));
    }
  }
}

TEST_CASE("The fused gradient of cross entropy is the recorded one") {
  Generator generator(12);
  const Tensor x = parameter(randn({6, 5}, DType::f64, generator));
  const Tensor target = targets({0, 4, 2, 2, 1, 3}), weight = rand({5}, DType::f64, generator);
  Tape tape;
  const Tensor loss =
      cross_entropy(x, target, {.ignore_index = 2, .label_smoothing = 0.2, .weight = weight});
  const Tensor recorded = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
  CHECK(allclose(tape.gradient(loss, {x})[x], recorded, 1e-13, 1e-15));
}

TEST_CASE("A class that does not exist is an error that names it, before anything is computed") {
  const Tensor logits = ones({2, 3});
  check_throws(ErrorKind::index, {"cross_entropy: target i64 (2) holds 3 at (1)", "[0, 3)"}, [&] {
    cross_entropy(logits, targets({0, 3}));
  });
  check_throws(ErrorKind::index, {"holds -1 at (0)"}, [&] { nll_loss(logits, targets({-1, 0})); });
  check_throws(ErrorKind::shape, {"nll_loss: target i64 (3) does not fit x f32 (2, 3)"}, [&] {
    nll_loss(logits, targets({0, 1, 2}));
  });
  check_throws(ErrorKind::shape, {"(2, 3)", "(3)"}, [&] {
    cross_entropy(logits, targets({0, 1, 2}));
  });
  check_throws(ErrorKind::dtype, {"target", "i64"}, [&] { cross_entropy(logits, ones({2})); });
  check_throws(ErrorKind::shape, {"weight"}, [&] {
    cross_entropy(logits, targets({0, 1}), {.weight = ones({2})});
  });
  for (const double smoothing : {-0.1, 1.5, std::nan("")})
    check_throws(ErrorKind::value, {"label_smoothing"}, [&] {
      cross_entropy(logits, targets({0, 1}), {.label_smoothing = smoothing});
    });
}

TEST_CASE("A weight that wants a gradient is refused, for it would get none") {
  const Tensor logits = parameter(ones({2, 3})), weight = parameter(ones({3}));
  Tape tape;
  check_throws(ErrorKind::state, {"cross_entropy"}, [&] {
    cross_entropy(logits, targets({0, 1}), {.weight = weight});
  });
}

TEST_CASE("Cross entropy passes through a dry run with the allocations of the real run") {
  const auto step = [](const Tensor& target) {
    const Tensor x = parameter(zeros({8, 5}));
    Tape tape;
    const Tensor loss = cross_entropy(x, target, {.label_smoothing = 0.1});
    return tape.gradient(loss, {x})[x];
  };
  reset_peak();
  const std::int64_t before = memory_stats().live;
  step(zeros({8}, DType::i64));
  const std::int64_t real = memory_stats().peak - before;
  DryRun dry;
  step(zeros({8}, DType::i64));
  CHECK(memory_stats().peak == real);
}

TEST_CASE("smooth_l1_loss meets its two pieces at beta, and is abs for beta 0") {
  const Tensor zero = zeros({5}, DType::f64);
  const auto loss_of = [&](double beta) {
    return run(tensor({-3, -1, 0, 0.5, 2}, DType::f64),
               [&](const Tensor& x) { return smooth_l1_loss(x, zero, beta, Reduction::none); });
  };
  CHECK(loss_of(1).loss == Values{2.5, 0.5, 0, 0.125, 1.5});
  CHECK(loss_of(1).gradient == Values{-1, -1, 0, 0.5, 1});
  CHECK(loss_of(0).loss == Values{3, 1, 0, 0.5, 2});
  CHECK(loss_of(0).gradient == Values{-1, -1, 0, 1, 1});
  check_throws(ErrorKind::value, {"beta"}, [&] { smooth_l1_loss(zero, zero, -1); });
}

TEST_CASE("Losses of tensors compare equal shapes and dtypes alone") {
  for (const auto& loss : {mse_loss, binary_cross_entropy_with_logits}) {
    check_throws(ErrorKind::shape, {"(2, 3)", "(3)"}, [&] {
      loss(ones({2, 3}), ones({3}), Reduction::mean);
    });
    check_throws(ErrorKind::dtype, {"f64"},
                 [&] { loss(ones({2}), ones({2}, DType::f64), Reduction::mean); });
  }
  check_throws(ErrorKind::value, {"avg"}, [] { parse_reduction("avg"); });
  CHECK(parse_reduction("sum") == Reduction::sum);
}

TEST_CASE("Cross entropy does not depend on the number of threads") {
  Generator generator(3);
  const Tensor x = parameter(randn({500, 300}, DType::f32, generator));
  const Tensor target = randint(0, 300, {500}, generator);
  const auto run_with = [&](int threads) {
    const ThreadBudget budget(threads);
    Tape tape;
    const Tensor loss = cross_entropy(x, target);
    return std::vector{loss.detach(), tape.gradient(loss, {x})[x]};
  };
  const auto one = run_with(1), many = run_with(8);
  CHECK(equal(one[0], many[0]));
  CHECK(equal(one[1], many[1]));
}

}  // namespace
}  // namespace tapehead::tests
