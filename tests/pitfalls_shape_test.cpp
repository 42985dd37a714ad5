// Faults that users of other frameworks met: broadcasting, expanded tensors, views, writes, zero
// sizes. A fault has an id, which opens the names of its tests, here and in the files of the
// operations.
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/layers.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/diagonal.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <cmath>

using namespace tapehead;
using tests::check_throws;
using tests::f64;

namespace {

using Values = std::vector<double>;

Tensor zeros64(const Shape& shape) { return zeros(shape, DType::f64); }
Tensor ones64(const Shape& shape) { return ones(shape, DType::f64); }

}  // namespace

// ---- broadcasting -------------------------------------------------------------------------------

TEST_CASE("BCAST-1: a gradient has the shape of its operand, whatever was broadcast") {
  {
    const Tensor a = parameter(ones64({3, 1})), b = parameter(ones64({4}));
    Tape tape;
    const Gradients g = tape.gradient(a + b, {a, b}, ones64({3, 4}));
    CHECK(equal(g[a], f64({{4}, {4}, {4}})));
    CHECK(equal(g[b], f64({3, 3, 3, 3})));
  }
  {
    const Tensor c = parameter(ones64({1, 3, 1}));
    const Tensor upstream = reshape(arange(0, 24, 1, DType::f64), {2, 3, 4});
    Tape tape;
    const Tensor expanded = expand(c, {2, 3, 4}), added = c + zeros64({2, 3, 4});
    for (const Tensor& y : {expanded, added})
      CHECK(equal(tape.gradient(y, {c}, upstream, {.keep = true})[c], f64({{{60}, {92}, {124}}})));
  }
  {
    const Tensor v = parameter(f64(3));
    Tape tape;
    CHECK(equal(tape.gradient(sum(v * f64({1, 2})), {v})[v], f64(3)));
  }
  const Tensor a = parameter(ones64({5, 1, 1})), b = parameter(ones64({5, 2}));
  Tape tape;
  const Gradients g = tape.gradient(a + b, {a, b}, ones64({5, 5, 2}));
  CHECK(equal(g[a], full({5, 1, 1}, 10, DType::f64)));
  CHECK(equal(g[b], full({5, 2}, 5, DType::f64)));
}

TEST_CASE("BCAST-3: reading the values of a broadcast intermediate does not cut it from the tape") {
  const Tensor x = parameter(ones64({3, 3}));
  for (const bool read : {false, true}) {
    Tape tape;
    const Tensor y = x + ones64({3, 3, 3});
    if (read) {
      CHECK_FALSE(any(lt(y, 1)).item<bool>());
      CHECK(y.to_vector() == Values(27, 2.0));
    }
    const Tensor z = y * y;
    CHECK(equal(tape.gradient(z, {x}, ones64({3, 3, 3}))[x], full({3, 3}, 12, DType::f64)));
  }
}

// ---- expanded tensors, and writes ---------------------------------------------------------------

// The += and *= of INPL-1 do not exist here: fill_, copy_ and optimizers are all that writes.

TEST_CASE("INPL-1: an optimizer does not step through an expanded tensor") {
  Tensor values = expand(ones64({1, 1}), {4, 5});
  const Tensor b = parameter(std::move(values));
  check_throws(ErrorKind::value, {"SGD", "(4, 5)", "expanded", "clone"},
               [&] { nn::SGD optimizer(std::vector<Tensor>{b}, {.lr = 1}); });
  CHECK(equal(b, ones64({4, 5})));
  const Tensor own = parameter(clone(b.detach()));
  nn::SGD optimizer(std::vector<Tensor>{own}, {.lr = 1});
  optimizer.step(value_and_grad([&] { return sum(own); }, std::span(&own, 1)).gradients);
  CHECK(equal(own, zeros64({4, 5})));
}

TEST_CASE("INPL-1: gradients that are expanded or seen elsewhere are scaled and summed in copies") {
  const Tensor x = parameter(ones64({4})), z = parameter(ones64({4}));
  Tape tape;
  const Tensor x_sum = sum(x), y = x_sum + sum(z);
  const auto fresh = [&] { return tape.gradient(y, {x, z}, {}, {.create_graph = true}); };
  Gradients scaled = fresh(), summed = fresh(), clipped = fresh();
  const Gradients before = scaled;
  scaled *= 2;
  summed += before;
  nn::clip_grad_norm(clipped, 0.5);  // the norm is the root of 8
  for (const Tensor& leaf : {x, z}) {
    CHECK(equal(before[leaf], ones64({4})));
    CHECK(equal(scaled[leaf], full({4}, 2, DType::f64)));
    CHECK(equal(summed[leaf], full({4}, 2, DType::f64)));
    CHECK(allclose(clipped[leaf], full({4}, 0.5 / std::sqrt(8.0), DType::f64), 1e-6, 0));
  }
}

TEST_CASE("INPL-2: a difference of overlapping windows is taken before it is written back") {
  const Tensor t = f64({1, 2, 3, 4, 5});
  copy_(narrow(t, 0, 1, 4), narrow(t, 0, 1, 4) - narrow(t, 0, 0, 4));
  CHECK(equal(t, f64({1, 1, 1, 1, 1})));
}

TEST_CASE("VIEW-4: what was computed before a write keeps its values, and every view shows it") {
  const Tensor x = f64({1, 2, 3});
  const Tensor y = x + 0.0, s = slice(x, 0, 0, 2);
  const std::vector<Tensor> views = {
      s,
      slice(x, 0, 0, {}, 2),
      narrow(x, 0, 0, 2),
      select(x, 0, 1),
      split(x, 2).front(),
      chunk(x, 2).back(),
      reshape(x, {3, 1}),
      flatten(x),
      squeeze(x),
      unsqueeze(x, 0),
      permute(x, {0}),
      transpose(unsqueeze(x, 0), 0, 1),
      diagonal(unsqueeze(x, 0)),
      expand(x, {2, 3}),
      contiguous(x),
      x.detach(),
  };
  fill_(x, 9);
  CHECK(equal(y, f64({1, 2, 3})));
  CHECK(equal(s, f64({9, 9})));
  for (const Tensor& view : views)
    CHECK(view.to_vector() == Values(static_cast<std::size_t>(view.numel()), 9.0));
}

// ---- zero sizes and 0-d tensors -----------------------------------------------------------------

namespace {

struct Model : nn::Module {
  nn::Linear linear;
  nn::LayerNorm norm{{.normalized_shape = {2}, .dtype = DType::f64}};

  explicit Model(Generator generator)
      : linear({.in_features = 3, .out_features = 2, .dtype = DType::f64}, generator) {}
  void visit(nn::Visitor& visitor) override {
    visitor("linear", linear);
    visitor("norm", norm);
  }
  Tensor operator()(const Tensor& x) const { return norm(linear(x)); }
};

}  // namespace

TEST_CASE("ZERO-2: an empty batch after a normal step is a step with gradients of zero") {
  // All parameters after a normal step and one on `second`, whose gradients must be 0.
  const auto train = [](const Tensor& second, double factor) {
    const Model model{Generator(7)};
    const std::vector<Tensor> parameters = model.parameters();
    nn::AdamW optimizer(model, {.lr = 0.1});
    const auto step = [&](const Tensor& x, double scale) {
      Tape tape;
      const Tensor y = model(x), loss = sum(y) * scale;
      const Gradients g = tape.gradient(loss, parameters);
      optimizer.step(g);
      CHECK(y.shape() == Shape{x.size(0), 2});
      return std::pair{loss.item(), g};
    };
    CHECK(equal(step(f64({{1, 2, 3}, {0, -1, 2}}), 1).second[model.norm.bias], f64({2, 2})));
    const auto [loss, g] = step(second, factor);
    CHECK(loss == 0);
    Values after;
    for (const Tensor& p : parameters) {
      CHECK(g.reached(p));
      CHECK(equal(g[p], zeros_like(p)));
      for (const double value : p.to_vector()) after.push_back(value);
    }
    return after;
  };
  CHECK(train(zeros64({0, 3}), 1) == train(f64({{1, 2, 3}}), 0));
}

TEST_CASE("ZERO-4: gradients keep apart the shapes of 0-d tensors and of tensors of one element") {
  const Tensor scalar = parameter(f64(2)), x = parameter(ones64({5})), one = parameter(f64({{2}}));
  Tape tape;
  for (const std::int64_t dim : {0, -1})
    CHECK(equal(tape.gradient(sum(scalar * scalar, {dim}), {scalar})[scalar], f64(4)));
  check_throws(ErrorKind::index, {"sum", "dim 1"}, [&] { sum(scalar, {1}); });
  const Tensor average = mean(x * x, {0});
  CHECK(equal(average, f64(1)));
  CHECK(equal(tape.gradient(average, {x})[x], full({5}, 0.4, DType::f64)));
  const Tensor square = sum(one * one, {0});
  CHECK(square.shape() == Shape{1});
  CHECK(equal(tape.gradient(square, {one})[one], f64({{4}})));
}

TEST_CASE("ZERO-5: nothing repeated, nothing narrowed to and nothing summed has empty gradients") {
  const Tensor x = parameter(arange(0, 3, 1, DType::f64)), z = parameter(zeros64({2, 0}));
  Tape tape;
  for (const std::int64_t start : {0, 3}) {
    const Tensor loss = sum(narrow(x, 0, start, 0));
    CHECK(equal(loss, f64(0)));
    CHECK(equal(tape.gradient(loss, {x})[x], zeros64({3})));
  }
  const Tensor repeated = sum(repeat(x, {0}));
  CHECK(equal(repeated, f64(0)));
  CHECK(equal(tape.gradient(repeated, {x})[x], zeros64({3})));

  const Tensor running = cumsum(z, -1), total = sum(running);
  CHECK(running.shape() == Shape{2, 0});
  CHECK(equal(total, f64(0)));
  CHECK(equal(tape.gradient(total, {z})[z], zeros64({2, 0})));
}
