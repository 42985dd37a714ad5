// What the table of operation cases cannot say of indexing and masks: exact values at repeated and
// bad positions, infinities, buffers, threads.
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tapehead;
using tests::boolean;
using tests::check_throws;
using tests::f64;

namespace {

Tensor positions(const NestedList& values) { return tensor(values, DType::i64); }

}  // namespace

TEST_CASE(
    "MASK-3 masked_fill selects: infinities and NaN under the mask are gone, in gradients too") {
  Tape tape;
  const Tensor x = parameter(f64({1, INFINITY, NAN, 2}));
  const Tensor y = masked_fill(x, boolean({0, 1, 1, 0}), 0);
  CHECK(equal(y, f64({1, 0, 0, 2})));
  const Gradients g = tape.gradient(y, {x}, f64({1, NAN, INFINITY, 1}));
  CHECK(equal(g[x], f64({1, 0, 0, 1})));
}

TEST_CASE("HESS-2 second derivatives go through a mask") {
  Tape tape;
  const Tensor x = parameter(f64({2, 3}));
  const Tensor square = mul(x, x);
  const Tensor y = masked_fill(mul(square, x), boolean({0, 1}), 0);
  const Gradients first = tape.gradient(y, {x}, ones({2}, DType::f64), {.create_graph = true});
  CHECK(equal(first[x], f64({12, 0})));
  CHECK(equal(tape.gradient(sum(first[x]), {x})[x], f64({12, 0})));
}

TEST_CASE("a triangle keeps nothing of what it leaves out, on the widest diagonals too") {
  const Tensor x = f64({{1, INFINITY, NAN}, {2, 3, INFINITY}});
  CHECK(equal(tril(x), f64({{1, 0, 0}, {2, 3, 0}})));
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(equal(tril(ones({2, 3}), huge), ones({2, 3})));
  CHECK(equal(tril(ones({2, 3}), -huge - 1), zeros({2, 3})));
  CHECK(equal(triu(ones({2, 3}), huge), zeros({2, 3})));
  CHECK(equal(triu(ones({2, 3}), -huge - 1), ones({2, 3})));
}

TEST_CASE("GATH-1 gradients of repeated positions add up") {
  Tape tape;
  const Tensor x = parameter(f64({0.1})), rows = parameter(zeros({4}, DType::f64));
  const Tensor gathered = gather(x, 0, positions({0, 0}));
  CHECK(tape.gradient(gathered, {x}, f64({0.2, 0.3}))[x].item() == 0.5);
  const Tensor selected = index_select(rows, 0, positions({2, 0, 2}));
  CHECK(equal(tape.gradient(selected, {rows}, f64({1, 10, 100}))[rows], f64({10, 0, 101, 0})));
}

TEST_CASE("GATH-2 the padding row has values, and no gradient") {
  Tape tape;
  const Tensor weight = parameter(f64({{7, 7}, {1, 2}, {3, 4}, {5, 6}}));
  const Tensor y = embedding(weight, positions({{0, 1, 1, 2}}), 0);
  CHECK(equal(y, f64({{{7, 7}, {1, 2}, {1, 2}, {3, 4}}})));
  const Tensor twice = add(sum(y), sum(embedding(weight, positions({0, 3}), -4)));
  CHECK(equal(tape.gradient(twice, {weight})[weight], f64({{0, 0}, {2, 2}, {1, 1}, {1, 1}})));
}

TEST_CASE("GATH-3 scatter_add at equal positions") {
  Tape tape;
  const Tensor base = parameter(zeros({3}, DType::f64)), src = parameter(f64({5, 7}));
  const Tensor y = scatter_add(base, 0, positions({1, 1}), src);
  CHECK(equal(y, f64({0, 12, 0})));
  const Gradients g = tape.gradient(y, {base, src}, f64({1, 10, 100}));
  CHECK(equal(g[src], f64({10, 10})));
  CHECK(equal(g[base], f64({1, 10, 100})));
  CHECK(equal(base, zeros({3}, DType::f64)));
}

TEST_CASE("GATH-4 a position out of range is an IndexError with both numbers, before any write") {
  const Tensor x = zeros({5, 5}, DType::f64);
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const Tensor index = positions({0, bad}), rows = positions({{0, bad}});
    const std::string number = std::to_string(bad);
    const std::initializer_list<std::string_view> text = {number, "[0, 5)"};
    check_throws(ErrorKind::index, text, [&] { embedding(x, index); });
    check_throws(ErrorKind::index, text, [&] { index_select(x, 1, index); });
    check_throws(ErrorKind::index, text, [&] { gather(x, 1, rows); });
    Tensor target = zeros({5, 5}, DType::f64);
    const View seen = target.view();  // the buffer that the operation would work in
    const Tensor keep_alive = target;
    check_throws(ErrorKind::index, text, [&] {
      scatter_add(target, 1, rows, ones({1, 2}, DType::f64));
    });
    check_throws(ErrorKind::index, text, [&] {
      index_add(target, 1, index, ones({5, 2}, DType::f64));
    });
    CHECK(seen.as<double>()[0] == 0);
  }
}

TEST_CASE("INPL-4 adding into an expanded tensor makes a tensor of its own") {
  const Tensor base = zeros({1, 2}, DType::f64);
  const Tensor y =
      index_add(expand(base, {3, 2}), 0, positions({0, 2, 2}), ones({3, 2}, DType::f64));
  CHECK(equal(y, f64({{1, 1}, {0, 0}, {2, 2}})));
  CHECK(equal(base, zeros({1, 2}, DType::f64)));
}

TEST_CASE("operations that can work in place take over a buffer that is moved in, and no other") {
  Tensor x = ones({4, 4});
  const auto storage = x.storage()->id();
  x = masked_fill(std::move(x), boolean({0, 1, 0, 1}), 2);
  x = tril(std::move(x));
  x = scatter_add(std::move(x), 0, positions({{0, 0, 1, 1}}), ones({1, 4}));
  x = index_add(std::move(x), 1, positions({3}), ones({4, 1}));
  CHECK(x.storage()->id() == storage);
  const Tensor still_held = masked_fill(x, boolean({0, 1, 0, 1}), 3);
  CHECK(still_held.storage()->id() != storage);
  CHECK(equal(x, tensor({{2, 1, 0, 1}, {1, 2, 1, 2}, {1, 2, 1, 1}, {1, 2, 1, 3}})));
}

TEST_CASE("gradients of an embedding have the same bits for any number of threads") {
  const auto gradient = [](int threads) {
    const ThreadBudget budget(threads);
    Generator generator(2);
    Tape tape;
    const Tensor weight = parameter(randn({50, 37}, DType::f32, generator));
    const Tensor indices = randint(0, 50, {40, 50}, generator);
    const Tensor upstream = randn({40, 50, 37}, DType::f32, generator);
    return tape.gradient(embedding(weight, indices), {weight}, upstream)[weight];
  };
  const Tensor one = gradient(1);
  CHECK(equal(gradient(2), one));
  CHECK(equal(gradient(7), one));
}

TEST_CASE("tied uses of an embedding add into one gradient buffer") {
  Tape tape;
  const Tensor weight = parameter(zeros({3, 2}, DType::f64));
  const Tensor a = embedding(weight, positions({0, 1})), b = embedding(weight, positions({1, 2}));
  const Tensor whole = mul(weight, 3.0);
  const Tensor loss = add(add(sum(a), sum(b)), sum(whole));
  CHECK(equal(tape.gradient(loss, {weight})[weight], f64({{4, 4}, {5, 5}, {4, 4}})));
}
