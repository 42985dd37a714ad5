// Functions that nn::checkpoint cannot run again, or that throw.
#include "support/attention.h"
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/nn/checkpoint.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/write.h>

using namespace tapehead;
using namespace tapehead::tests;
using nn::checkpoint;

namespace {

using List = std::vector<Tensor>;

}  // namespace

TEST_CASE("errors of the function pass through and leave the tape usable") {
  const Tensor x = random_leaf({3});
  int calls = 0;
  const auto f = [&](const List& in) {
    const Tensor y = exp(in[0]);
    if (++calls != 2) throw IoError("f", "call " + std::to_string(calls));
    return dropout(y, 0.5);
  };
  Tape tape;
  const RandomState start = default_generator().state();
  check_throws(ErrorKind::io, {"f: call 1"}, [&] { checkpoint(f, {x}); });
  CHECK(tape.size() == 0);
  CHECK(Tape::recording() == &tape);
  const Tensor y = sum(checkpoint(f, {x}));
  check_throws(ErrorKind::io, {"f: call 3"}, [&] { tape.gradient(y, {x}, {}, {.keep = true}); });
  CHECK(Tape::recording() == &tape);
  CHECK(!(default_generator().state() == start));
  const Tensor after = rand({1});  // no replay is left behind
  CHECK(default_generator().state().offset > start.offset);
  const Tensor z = sum(exp(x));
  CHECK(tape.gradient(z, {x})[x].to_vector() == exp(x.detach()).to_vector());
}

TEST_CASE("a checkpoint that does something else the second time is a StateError") {
  const Tensor x = random_leaf({3}), w = random_leaf({3});
  int calls = 0;
  const auto check_fails = [&](const nn::Block& f) {
    calls = 0;
    Tape tape;
    const Tensor y = sum(checkpoint(f, {x}));
    check_throws(ErrorKind::state, {}, [&] { tape.gradient(y, {x}); });
  };
  check_fails([&](const List& in) { return ++calls == 1 ? exp(in[0]) : exp(exp(in[0])); });
  check_fails([&](const List& in) { return ++calls == 1 ? sin(in[0]) : exp(in[0]); });
  check_fails([&](const List& in) { return pow(in[0], ++calls == 1 ? 2.0 : 3.0); });
  check_fails([&](const List& in) { return sum(in[0], {0}, ++calls == 1); });
  check_fails([&](const List& in) {
    const Tensor a = exp(in[0]), b = sin(in[0]);
    return ++calls == 1 ? sub(a, b) : sub(b, a);
  });
  check_fails([&](const List& in) {
    return checkpoint([&](const List& i) { return ++calls == 1 ? sin(i[0]) : exp(i[0]); }, {in[0]});
  });
  check_fails([&](const List& in) { return mul(in[0], ++calls == 1 ? x : w); });
  check_fails([&](const List& in) { return ++calls == 1 ? dropout(in[0], 0.5) : neg(in[0]); });
  check_fails([&](const List& in) { return ++calls == 1 ? neg(in[0]) : dropout(in[0], 0.5); });

  // Evaluation mode in between: no dropout the second time.
  nn::MultiHeadAttention attention =
      make_attention({.embed_dim = 12, .num_heads = 3, .dropout = 0.4});
  const Tensor tokens = random_leaf({2, 3, 12});
  Tape tape;
  const Tensor y = sum(checkpoint([&](const List& in) { return attention(in[0]); }, {tokens}));
  attention.eval();
  check_throws(ErrorKind::state, {"checkpoint: ", "something else"},
               [&] { tape.gradient(y, {tokens}); });
}

TEST_CASE("a checkpoint that reads its inputs in another order, or returns another value, is one") {
  const Tensor x = random_leaf({3}), z = random_leaf({3});
  int calls = 0;
  const auto check_fails = [&](const nn::Block& f, const char* names) {
    for (const bool nested : {false, true}) {
      calls = 0;
      Tape tape;
      const auto inside = [&](const List& in) { return checkpoint(f, in); };
      const Tensor y = sum(nested ? checkpoint(inside, {x, z}) : checkpoint(f, {x, z}));
      check_throws(ErrorKind::state, {"checkpoint: ", nested ? "operation 0" : names}, [&] {
        tape.gradient(y, {x, z});
      });
    }
  };
  check_fails([&](const List& in) { return ++calls == 1 ? sub(in[0], in[1]) : sub(in[1], in[0]); },
              "other inputs");
  check_fails([&](const List& in) { return sin(in[++calls == 1 ? 0 : 1]); }, "other inputs");
  check_fails([&](const List& in) { return in[++calls == 1 ? 0 : 1]; }, "other inputs");
  check_fails(
      [&](const List& in) {
        const Tensor a = sin(in[0]), b = cos(in[1]);
        return ++calls == 1 ? a : b;
      },
      "the result");
}

TEST_CASE("a checkpoint of nothing is an error that names it") {
  const Tensor x = random_leaf({3});
  check_throws(ErrorKind::value, {"checkpoint: ", "no function"},
               [&] { checkpoint(nn::Block(), {x}); });
  check_throws(ErrorKind::value, {"checkpoint: ", "input 1 is undefined"}, [&] {
    checkpoint([](const List& in) { return in[0]; }, {x, Tensor()});
  });
  const auto returns_nothing = [](const List&) { return Tensor(); };
  const auto run = [&] { checkpoint(returns_nothing, {x}); };
  check_throws(ErrorKind::value, {"checkpoint: ", "returned no tensor"}, run);
  const Tape tape;
  check_throws(ErrorKind::value, {"checkpoint: ", "returned no tensor"}, run);
}

TEST_CASE(
    "parameters and inputs that were written to, and tensors of the tape outside, are "
    "StateErrors") {
  const Tensor x = random_leaf({3}), w = random_leaf({3});
  for (const Tensor& written : {x, w}) {
    Tape tape;
    const Tensor y = sum(checkpoint([&](const List& in) { return mul(in[0], w); }, {x}));
    {
      const Tape::Pause pause;
      fill_(written, 2);
    }
    check_throws(ErrorKind::state, {"checkpoint: ", "written to"}, [&] { tape.gradient(y, {x}); });
  }
  Tape tape;
  const Tensor outside = exp(x);
  check_throws(ErrorKind::state, {"mul: ", "another open tape"},
               [&] { checkpoint([&](const List& in) { return mul(in[0], outside); }, {x}); });
  check_throws(ErrorKind::state, {"another open tape"},
               [&] { checkpoint([&](const List&) { return outside; }, {x}); });
  check_throws(ErrorKind::value, {"checkpoint: ", "no tensor"},
               [&] { checkpoint([](const List&) { return Tensor(); }, {x}); });
  CHECK(tape.size() == 1);
}
