// layer_norm and rms_norm: what the table of operation cases does not say of them. Names open with
// the id of the pitfall that a test is about.
#include "support/checks.h"
#include "support/ulps.h"
#include "support/values.h"

#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/statistics.h>

#include <cmath>

namespace tapehead::tests {
namespace {

using Values = std::vector<double>;

TEST_CASE("ACC-2: a large mean does not cancel the variance") {
  const Values got = layer_norm(tensor({40000, 40001, 40002, 40003}), {4}).to_vector();
  const Values want = {-1.341635, -0.447212, 0.447212, 1.341635};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(got[i] - want[i]) < 1e-5);
  for (const double value : layer_norm(full({256}, 1234), {256}).to_vector())
    CHECK(std::abs(value) < 1e-6);
}

TEST_CASE("A mean that float32 cannot hold is taken away all the same") {
  // 2^20 + k / 8: the mean of eight of these lies between two floats.
  Values values, deviations;
  for (int k = 0; k < 64; ++k) {
    values.push_back(1048576 + (k % 8) / 8.0);
    deviations.push_back(k % 8 - 3.5);
  }
  const Values got = layer_norm(from_vector(values, {64}, DType::f32), {64}, {}, {}, 0).to_vector();
  const double scale = std::sqrt(5.25);  // the deviation of 0..7
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(deviations[i] / scale).epsilon(3 * 0x1p-24));
}

TEST_CASE("Gradients of layer_norm do not feel a mean that float32 cannot hold") {
  Generator generator(13);
  for (const double offset : {0.0, 1e4, 1e6}) {
    const Tensor x = add(randn({9, 70}, DType::f32, generator), offset);
    const Tensor weight = randn({70}, DType::f32, generator);
    const Tensor upstream = randn({9, 70}, DType::f32, generator);
    const auto gradients = [&](DType dtype, bool create_graph) {
      const auto leaf = [&](const Tensor& t) { return parameter(clone(to(t, dtype))); };
      const Tensor leaf_x = leaf(x), leaf_weight = leaf(weight);
      const Tensor leaf_bias = parameter(zeros({70}, dtype));
      Tape tape;
      const Tensor y = layer_norm(leaf_x, {70}, leaf_weight, leaf_bias);
      const Gradients g = tape.gradient(y, {leaf_x, leaf_weight}, to(upstream, dtype),
                                        {.create_graph = create_graph});
      const Tensor dx = g[leaf_x].detach(), dweight = g[leaf_weight].detach();
      return std::vector{to(dx, DType::f64), to(dweight, DType::f64)};
    };
    const auto right = gradients(DType::f64, false);
    for (const bool create_graph : {false, true}) {
      CAPTURE(offset);
      CAPTURE(create_graph);
      const auto got = gradients(DType::f32, create_graph);
      // Sums of up to 70 products of a few roundings each.
      for (std::size_t i = 0; i < 2; ++i) CHECK(allclose(got[i], right[i], 2e-6, 2e-6));
    }
  }
}

TEST_CASE("EDGE-6: layer_norm over one element gives the bias, and no gradient to x and weight") {
  const Tensor x = parameter(tensor({{5}}, DType::f64));
  const Tensor weight = parameter(tensor({1}, DType::f64));
  const Tensor bias = parameter(tensor({0.5}, DType::f64));
  Tape tape;
  const Tensor y = layer_norm(x, {1}, weight, bias);
  const Gradients gradients = tape.gradient(y, {x, weight, bias});
  CHECK(y.item() == 0.5);
  CHECK(gradients[x].item() == 0);
  CHECK(gradients[weight].item() == 0);
  CHECK(gradients[bias].item() == 1);
}

TEST_CASE("ZERO-2: an empty batch has zero gradients of the parameters, not stale ones") {
  for (int run = 0; run < 2; ++run) {
    const Tensor x = zeros({run == 0 ? 5 : 0, 2}, DType::f64);
    const Tensor weight = parameter(ones({2}, DType::f64)), bias = parameter(ones({2}, DType::f64));
    Tape tape;
    const Tensor loss = sum(layer_norm(x, {2}, weight, bias));
    const Gradients gradients = tape.gradient(loss, {weight, bias});
    CHECK(gradients.reached(weight));
    CHECK(gradients[weight].to_vector() == Values{0, 0});
    CHECK(gradients[bias].to_vector() == Values(2, run == 0 ? 5.0 : 0.0));
  }
}

TEST_CASE("rms_norm of float32 numbers whose squares overflow is right") {
  const Values got = rms_norm(tensor({3e30, 4e30}), {2}).to_vector();
  // Two roundings of float: of the scale and of the product.
  CHECK(got[0] == doctest::Approx(3 / std::sqrt(12.5)).epsilon(2 * 0x1p-24));
  CHECK(got[1] == doctest::Approx(4 / std::sqrt(12.5)).epsilon(2 * 0x1p-24));
}

TEST_CASE(
    "Rows whose squares overflow or vanish are normalised as any others, and so are their "
    "gradients") {
  const auto check = [](DType dtype, double factor, double tolerance) {
    CAPTURE(factor);
    Generator generator(17);
    const Tensor values = randn({3, 40}, DType::f64, generator);
    const Tensor weight = randn({40}, DType::f64, generator);
    const Tensor bias = randn({40}, DType::f64, generator);
    const Tensor upstream = randn({3, 40}, DType::f64, generator);
    for (const bool centered : {true, false})
      for (const bool create_graph : {false, true}) {
        const auto run = [&](DType type, double scale) {
          const auto leaf = [&](const Tensor& t) { return parameter(clone(to(t, type))); };
          const Tensor x = leaf(mul(to(to(values, dtype), DType::f64), scale));
          const Tensor w = leaf(weight), b = leaf(bias);
          Tape tape;
          const Tensor y = centered ? layer_norm(x, {40}, w, b, 0) : rms_norm(x, {40}, w, 0);
          const Gradients g =
              tape.gradient(y, {x, w}, to(upstream, type), {.create_graph = create_graph});
          // dx is as much smaller as x is larger.
          const Tensor dx = mul(to(g[x].detach(), DType::f64), scale);
          return std::vector{to(y.detach(), DType::f64), dx, to(g[w].detach(), DType::f64)};
        };
        const auto want = run(DType::f64, 1), got = run(dtype, factor);
        for (std::size_t i = 0; i < want.size(); ++i)
          CHECK(allclose(got[i], want[i], tolerance, tolerance));
      }
  };
  // Small rows too, for eps is 0 here.
  for (const double factor : {0x1p-110, 0x1p-70, 0x1p-65, 0x1p64, 0x1p100, 0x1p115})
    check(DType::f32, factor, 1e-5);
  for (const double factor : {0x1p-900, 0x1p-530, 0x1p-512, 0x1p512, 0x1p900})
    check(DType::f64, factor, 1e-12);
}

TEST_CASE("Beside deviations too small to square, a tiny eps has its place, and zeros stay zeros") {
  const double eps = 0x1p-130;
  const Tensor x = mul(tensor({{1, -1}, {0, 0}}), 0x1p-65);  // a variance of eps
  const Values y = layer_norm(x, {2}, {}, {}, eps).to_vector();
  CHECK(y[0] == doctest::Approx(std::sqrt(0.5)).epsilon(2 * 0x1p-24));
  CHECK(y[1] == -y[0]);
  CHECK(y[2] == 0);
  CHECK(y[3] == 0);
}

TEST_CASE("A row with an infinity or NaN normalises to NaN, and its neighbours do not feel it") {
  for (const double odd : {infinity, -infinity, not_a_number})
    for (const bool centered : {true, false}) {
      const Tensor x = tensor({{1, 2}, {odd, 2}, {1, 2}});
      const Values y = (centered ? layer_norm(x, {2}) : rms_norm(x, {2})).to_vector();
      CHECK(std::isnan(y[2]));
      CHECK(std::isnan(y[3]));
      for (const std::size_t i : {0u, 1u, 4u, 5u}) CHECK(std::isfinite(y[i]));
    }
}

TEST_CASE("Deviations and norms of float32 numbers whose squares overflow are right") {
  const Tensor x = tensor({3e30, 4e30});
  CHECK(norm(x).item() == doctest::Approx(5e30).epsilon(0x1p-23));
  CHECK(tapehead::std(x).item() == doctest::Approx(std::sqrt(0.5) * 1e30).epsilon(1e-6));
  CHECK(var(x).item() == infinity);  // 5e59 is no float
}

TEST_CASE("Short float32 rows are rounded once, also where the bias cancels what was normalised") {
  Generator generator(3);
  const Tensor x = mul(randn({20000, 4}, DType::f32, generator), 3000);
  const Tensor weight = randn({4}, DType::f32, generator), bias = randn({4}, DType::f32, generator);
  const auto exact = [](const Tensor& t) { return to(t, DType::f64); };
  const Tensor want = layer_norm(exact(x), {4}, exact(weight), exact(bias));
  // Half a unit, and the rounding of the comparison itself.
  CHECK(largest_error_in_ulps(layer_norm(x, {4}, weight, bias), want) <= 0.501);
}

TEST_CASE("A bias without a weight is added") {
  const Tensor x = tensor({{1, 2, 4}, {3, 0, 1}}, DType::f64), bias = tensor({1, 2, 3}, DType::f64);
  CHECK(equal(layer_norm(x, {3}, {}, bias), add(layer_norm(x, {3}), bias)));
}

TEST_CASE("Gradients asked for one at a time are those asked for together") {
  Generator generator(4);
  const Tensor x = parameter(randn({70, 33}, DType::f64, generator));
  const Tensor weight = parameter(randn({33}, DType::f64, generator));
  const Tensor bias = parameter(randn({33}, DType::f64, generator));
  const Tensor upstream = randn({70, 33}, DType::f64, generator);
  const auto gradients = [&](std::initializer_list<Tensor> of) {
    Tape tape;
    return tape.gradient(layer_norm(x, {33}, weight, bias), of, upstream);
  };
  const Gradients all = gradients({x, weight, bias});
  CHECK(equal(gradients({x})[x], all[x]));
  CHECK(equal(gradients({weight})[weight], all[weight]));
  // Another kernel sums g when nothing else is wanted; 70 terms near 1.
  CHECK(allclose(gradients({bias})[bias], all[bias], 1e-13, 1e-13));
}

TEST_CASE("The fused gradient is the recorded one") {
  Generator generator(6);
  const Tensor x = parameter(randn({37, 2, 20}, DType::f64, generator));
  const Tensor weight = parameter(randn({2, 20}, DType::f64, generator));
  const Tensor bias = parameter(randn({2, 20}, DType::f64, generator));
  const Tensor upstream = randn({37, 2, 20}, DType::f64, generator);
  for (const bool centered : {true, false}) {
    Tape tape;
    const Tensor y = centered ? layer_norm(x, {2, 20}, weight, bias) : rms_norm(x, {2, 20}, weight);
    const std::vector<Tensor> of = centered ? std::vector{x, weight, bias} : std::vector{x, weight};
    const Gradients recorded = tape.gradient(y, of, upstream, {.create_graph = true});
    const Gradients fused = tape.gradient(y, of, upstream);
    for (const Tensor& t : of) CHECK(allclose(fused[t], recorded[t], 1e-12, 1e-13));
  }
}

TEST_CASE("Results and gradients do not depend on the number of threads") {
  Generator generator(8);
  const Tensor x = parameter(randn({1000, 200}, DType::f32, generator));
  const Tensor weight = parameter(randn({200}, DType::f32, generator));
  const Tensor bias = parameter(randn({200}, DType::f32, generator));
  const Tensor upstream = randn({1000, 200}, DType::f32, generator);
  const auto run = [&](int threads) {
    const ThreadBudget budget(threads);
    Tape tape;
    const Tensor y = layer_norm(x, {200}, weight, bias);
    const Gradients g = tape.gradient(y, {x, weight, bias}, upstream);
    return std::vector{y.detach(), g[x], g[weight], g[bias]};
  };
  const auto one = run(1), many = run(8);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(equal(one[i], many[i]));
}

TEST_CASE("What does not fit is refused, with the shapes in the text") {
  const Tensor x = ones({2, 3});
  check_throws(ErrorKind::shape, {"layer_norm", "(2, 3)", "(2)"}, [&] { layer_norm(x, {2}); });
  check_throws(ErrorKind::shape, {"layer_norm"}, [&] { layer_norm(x, {1, 2, 3}); });
  check_throws(ErrorKind::shape, {"at least one dim"}, [&] { layer_norm(x, {}); });
  check_throws(ErrorKind::shape, {"weight", "(2)"}, [&] { layer_norm(x, {3}, ones({2})); });
  check_throws(ErrorKind::shape, {"bias"}, [&] { layer_norm(x, {3}, ones({3}), ones({1, 3})); });
  check_throws(ErrorKind::dtype, {"weight", "f64"},
               [&] { rms_norm(x, {3}, ones({3}, DType::f64)); });
}

}  // namespace
}  // namespace tapehead::tests
