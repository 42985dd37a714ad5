// Faults that users of other frameworks met: fan-out, reuse of the graph, deep graphs, memory over
// time. A fault has an id, which opens the names of its tests. Gradients are returned values here,
// so those about gradients that pile up assert the values of each call.
#include "../tools/program/bench/measure.h"
#include "support/checks.h"
#include "support/process.h"
#include "support/toy_operations.h"

#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

using namespace tapehead;
using tests::check_throws;
using toy::leaf;

namespace {

using Values = std::vector<double>;

double d(Tape& tape, const Tensor& y, const Tensor& x) { return tape.gradient(y, {x})[x].item(); }

}  // namespace

// ---- fan-out ------------------------------------------------------------------------------------

TEST_CASE("FAN-1 a non-leaf used twice") {
  {
    const Tensor a = leaf(1);
    Tape tape;
    const Tensor b = a + a, c = b + b;
    CHECK(d(tape, c, a) == 4);
  }
  const Tensor x = leaf(1), k = toy::constant(1);
  Tape tape;
  const Tensor xa = x * k, x2 = x * x;
  const Tensor first = x * xa, second = x2 * k, third = x * xa;
  const Tensor sum = first + second, f = sum + third;
  CHECK(f.item() == 3);
  CHECK(d(tape, f, x) == 6);
}

TEST_CASE("FAN-3 equal values are not the same leaf") {
  const Tensor w1 = leaf(3), w2 = leaf(3);
  const Tensor p = parameter(ones({2, 2}, DType::f64)), q = parameter(ones({2, 2}, DType::f64));
  Tape tape;
  const Tensor scalars = w1 + w2, matrix = p * 2.0 + q;
  const Tensor y = sum(matrix) + scalars;
  const Gradients g = tape.gradient(y, {w1, w2, p, q});
  CHECK(g.size() == 4);
  CHECK(g[w1].item() == 1);
  CHECK(g[w2].item() == 1);
  CHECK(g[p].to_vector() == Values{2, 2, 2, 2});
  CHECK(g[q].to_vector() == Values{1, 1, 1, 1});
}

TEST_CASE("FAN-4 two leaves do not share one gradient buffer, nor the seed") {
  const Tensor x = leaf({1, 1}, {2}), y = leaf({1, 1}, {2});
  const auto check = [&](const std::function<Tensor()>& f, const Values& dy) {
    Tape tape;
    const Tensor z = f(), seed = ones({2}, DType::f64);
    const Gradients g = tape.gradient(z, {x, y}, seed);
    scale_in_place(g[x].view(), 10);
    CHECK(g[x].to_vector() == Values{10, 10});
    CHECK(g[y].to_vector() == dy);
    CHECK(seed.to_vector() == Values{1, 1});
    Gradients again = g;
    again += tape.gradient(sum(x * 1.0), {x, y});
    CHECK(again[x].to_vector() == Values{11, 11});
    CHECK(again[y].to_vector() == dy);
  };
  check([&] { return x + y; }, {1, 1});
  check([&] { return reshape(x, {2}) + y; }, {1, 1});
  check([&] { return x - y; }, {-1, -1});
}

TEST_CASE("FAN-5 the sum-of-paths example") {
  const Tensor a = leaf(2), b = leaf(3);
  Tape tape;
  const Tensor c = a + b, dd = a * b, e = c + dd, f = c * dd, y = e + f;
  CHECK(y.item() == 41);
  const Gradients g = tape.gradient(y, {a, b});
  CHECK(g[a].item() == 25);
  CHECK(g[b].item() == 19);
}

// ---- reuse of the graph -------------------------------------------------------------------------

TEST_CASE("REUSE-1 backward twice") {
  const Tensor x = leaf(3);
  {
    Tape tape;
    const Tensor k = x * x, y = k * 2.0;
    const Gradients first = tape.gradient(y, {x});
    check_throws(ErrorKind::state, {"consumed", "keep"}, [&] { tape.gradient(y, {x}); });
    CHECK(first[x].item() == 12);
  }
  Tape tape;
  const Tensor k = x * x, y = k * 2.0;
  Gradients sum = tape.gradient(y, {x}, {}, {.keep = true});
  CHECK(sum[x].item() == 12);
  sum += tape.gradient(y, {x}, {}, {.keep = true});
  CHECK(sum[x].item() == 24);
}

TEST_CASE("REUSE-3 detach cuts the graph and nothing else") {
  const Tensor x = leaf(3);
  Tape tape;
  const Tensor y = x * x.detach(), z = x * x;
  const Tensor loss = y + z.detach();
  CHECK(loss.item() == 18);
  CHECK(d(tape, loss, x) == 3);
  CHECK(x.detach().storage() == x.storage());  // as documented: it shares, it does not copy
}

TEST_CASE("REUSE-4 errors leave the tape usable") {
  const Tensor x = leaf(2), wrong = leaf({1, 2, 3}, {3}), other = leaf({1, 2}, {2});
  Tape tape;
  CHECK_THROWS_AS(
      [&] {
        const Tape::Pause pause;
        add(wrong, other);
      }(),
      ShapeError);
  CHECK(Tape::recording() == &tape);
  CHECK_THROWS_AS(add(wrong * 2.0, other), ShapeError);
  CHECK(tape.size() == 1);  // the half that was right
  const Tensor y = x * x;
  CHECK(d(tape, y, x) == 4);
  {
    Tape second;
    CHECK_THROWS_AS(add(wrong, other), ShapeError);
    CHECK(second.size() == 0);
  }
  CHECK(Tape::recording() == &tape);
}

TEST_CASE("REUSE-5 two losses over one shared part") {
  const Tensor t = leaf(1);
  {
    Tape tape;
    const Tensor k = t * 2.0, l1 = k * 2.0, l2 = k * 3.0;
    Gradients sum = tape.gradient(l1, {t}, {}, {.keep = true});
    CHECK(sum[t].item() == 4);
    sum += tape.gradient(l2, {t});
    CHECK(sum[t].item() == 10);
  }
  for (const bool saves : {false, true}) {  // consistently, for rules that saved nothing as well
    Tape tape;
    const Tensor k = saves ? t * t : t * 2.0, l1 = k * 2.0, l2 = k * 3.0;
    tape.gradient(l1, {t});
    CHECK_THROWS_AS(tape.gradient(l2, {t}), StateError);
  }
}

TEST_CASE("HESS-3 mixed second derivative by asking for it; nothing else is touched") {
  const Tensor a = leaf(3), x = leaf(2);
  Tape tape;
  const Tensor ax = a * x, f = ax * ax;
  const Gradients first = tape.gradient(f, {x}, {}, {.create_graph = true});
  CHECK(first[x].item() == 36);
  CHECK(first.size() == 1);
  CHECK_THROWS_AS(first[a], StateError);
  CHECK(d(tape, first[x], a) == 24);
}

// ---- long and wide graphs -----------------------------------------------------------------------

namespace {

void million_operations(bool backward) {
  const Tensor x = leaf(1);
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 1'000'000; ++i) y = y + 1.0;
  CHECK(y.item() == 1 + 1e6);
  CHECK(tape.size() == 1'000'000);
  if (backward) CHECK(d(tape, y, x) == 1);
}

}  // namespace

TEST_CASE("DEEP-1 a million operations in a chain, walked or dropped, on a small stack") {
  tests::run_with_small_stack([] { million_operations(true); });
  tests::run_with_small_stack([] { million_operations(false); });
}

TEST_CASE("DEEP-2 diamonds: nodes are visited, not paths") {
  const Tensor x = leaf(1);
  Tape tape;
  Tensor b = x;
  for (int i = 0; i < 60; ++i) b = b + b;
  CHECK(tape.size() == 60);
  CHECK(b.item() == 1152921504606846976.0);
  CHECK(d(tape, b, x) == 1152921504606846976.0);
}

// ---- memory over time ---------------------------------------------------------------------------

TEST_CASE("MEM-1 memory is flat in a training loop, with and without a backward pass") {
  const Tensor w = parameter(full({64, 64}, 0.5, DType::f64));
  const auto steps = [&](int count, bool backward) {
    for (int i = 0; i < count; ++i) {
      Tape tape;
      const Tensor y = sum(w * w * 0.5);
      if (backward) tape.gradient(y, {w});
    }
  };
  for (const bool backward : {true, false}) {
    steps(100, backward);
    const std::int64_t live = memory_stats().live, kept = memory_stats().reserved,
                       rss = program::bench::resident_bytes();
    steps(19'900, backward);
    CHECK(memory_stats().live == live);
    CHECK(memory_stats().reserved == kept);
    // 4 MiB: by itself it stays; the nodes of a step would add 1 KB and more in each of them.
    if (!tests::sanitized) CHECK(program::bench::resident_bytes() <= rss + (4 << 20));
  }
}

TEST_CASE("MEM-2 nothing is recorded when nothing needs a gradient") {
  const Tensor w = leaf({1, 2}, {2}), k = from_vector<double>({3, 4}, {2});
  Tape tape;
  {
    const Tape::Pause pause;
    sum(w * w);
  }
  sum(k * k);
  CHECK(tape.size() == 0);
  CHECK(tape.graph().saved_bytes() == 0);
}

TEST_CASE("MEM-3 after backward the saved tensors are gone, and during it memory falls") {
  constexpr std::int64_t n = (1 << 20) / 8;
  const Tensor x = parameter(full({n}, 1.0, DType::f64));
  const std::int64_t start = memory_stats().live;
  Tensor loss, output;
  std::int64_t before = 0;
  {
    Tape tape;
    Tensor y = x;
    for (int layer = 0; layer < 10; ++layer) {
      y = y * 1.5;
      y = y * y;  // saves y: 1 MiB a layer
    }
    loss = sum(y);
    output = y.detach();
    y = Tensor();
    before = memory_stats().live;
    CHECK(before - start >= 10 * (1 << 20));
    reset_peak();
    const Gradients g = tape.gradient(loss, {x});
    CHECK(memory_stats().peak <= before + 3 * (1 << 20));
    CHECK(memory_stats().live == start + 8 + 2 * (1 << 20));  // loss, output, gradient
  }
  CHECK(memory_stats().live == start + 8 + (1 << 20));
}
