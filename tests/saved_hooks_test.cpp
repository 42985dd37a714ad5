// Saved-tensor hooks: what they see, what is kept in a tensor's place, and how it comes back.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/operation_run.h"
#include "support/tensors.h"

#include <tapehead/core/nan_guard.h>
#include <tapehead/core/saved_hooks.h>
#include <tapehead/core/scope.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// Keeps a copy, and counts.
struct Counts {
  int packed = 0, unpacked = 0, alive = 0;
};

class Copy final : public PackedTensor {
 public:
  Copy(Counts& counts, Tensor values) : counts_(counts), values_(std::move(values)) {
    ++counts_.alive;
  }
  ~Copy() override { --counts_.alive; }
  Tensor unpack() override {
    ++counts_.unpacked;
    return values_;
  }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(values_.storage()->bytes());
  }
  std::string how() const override { return "copy"; }

 private:
  Counts& counts_;
  Tensor values_;
};

class CopyHooks final : public SavedTensorHooks {
 public:
  std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) override {
    seen.push_back(info.module + "/" + info.operation + "." + info.slot + ": " + info.reason +
                   " [" + std::string(to_string(info.category)) + "]");
    shapes.push_back(x.shape());
    ++counts.packed;
    return std::make_unique<Copy>(counts, clone(x));
  }
  Counts counts;
  std::vector<std::string> seen;
  std::vector<Shape> shapes;
};

// Hooks whose pack and unpack are given as functions.
class Made final : public PackedTensor {
 public:
  explicit Made(std::function<Tensor()> f) : f_(std::move(f)) {}
  Tensor unpack() override { return f_(); }
  std::int64_t bytes() const override { return 0; }
  std::string how() const override { return "made"; }

 private:
  std::function<Tensor()> f_;
};

class MadeHooks final : public SavedTensorHooks {
 public:
  using Pack = std::function<std::unique_ptr<PackedTensor>(const SavedInfo&, const Tensor&)>;
  explicit MadeHooks(Pack pack) : pack_(std::move(pack)) {}
  std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) override {
    return pack_(info, x);
  }

 private:
  Pack pack_;
};

}  // namespace

TEST_CASE("pack and unpack may open tapes of their own, which no hooks look at") {
  const auto computed = [](const Tensor& x) {
    const Tensor w = parameter(clone(x));
    Tape tape;
    const Tensor y = sum(mul(w, w));  // gradient: 2 w
    return tape.gradient(y, {w})[w].detach();
  };
  int packed = 0, unpacked = 0;
  const MadeHooks hooks([&](const SavedInfo&, const Tensor& x) {
    ++packed;
    const Tensor doubled = computed(x);
    return std::make_unique<Made>([&unpacked, computed, doubled] {
      ++unpacked;
      const Tensor quadrupled = computed(doubled);
      return mul(quadrupled, 0.25);
    });
  });
  const Tensor x = random_leaf({3});
  Tape tape;
  const Tensor y = exp(x);
  const Tensor g = tape.gradient(y, {x}, ones({3}, DType::f64))[x];
  CHECK(packed == 1);
  CHECK(unpacked == 1);
  CHECK(g.to_vector() == y.to_vector());  // doubling and halving are exact
}

TEST_CASE("hooks see operation, slot, reason, module and category, and rules read what they kept") {
  const Tensor x = random_leaf({3, 4}), w = random_leaf({4, 5});
  const auto run = [&] {
    const ModuleScope scope("block");
    Tape tape;
    const Tensor y = tanh(matmul(x, w));
    const Tensor loss = sum(mul(y, y));
    const Gradients g = tape.gradient(loss, {x, w});
    return std::pair(g[x].to_vector(), g[w].to_vector());
  };
  const auto plain = run();
  CopyHooks hooks;
  CHECK(run() == plain);
  // mul saves tanh's y twice more, which is packed already.
  CHECK(hooks.seen == std::vector<std::string>{"block/matmul.a: db = scale * a^T g [parameter]",
                                               "block/matmul.b: da = scale * g b^T [parameter]",
                                               "block/tanh.y: dx = g * (1 - y^2) [transient]"});
  CHECK(hooks.counts.alive == 0);
}

TEST_CASE("every operation's gradients, of both orders, are bit for bit those without hooks") {
  for (const OperationCase& row : operation_cases()) {
    CAPTURE(row.name());
    const auto run = [&] {
      const std::vector<Tensor> inputs = make_leaves(row, shape_variations(row).front());
      const std::vector<Tensor> wrt = differentiable(row, inputs);
      Tape tape;
      const std::vector<Tensor> results = row.call(inputs);
      const std::optional<Gradients> first = gradients_of(
          tape, results, make_upstream(results, Layout::contiguous), wrt, {.create_graph = true});
      std::vector<std::vector<double>> numbers;
      if (!first) return numbers;
      std::vector<Tensor> recorded;
      for (const Tensor& x : wrt) {
        const Tensor dx = (*first)[x];
        numbers.push_back(dx.to_vector());
        if (dx.requires_grad()) recorded.push_back(dx);
      }
      if (recorded.empty()) return numbers;
      const std::optional<Gradients> second =
          gradients_of(tape, recorded, make_upstream(recorded, Layout::contiguous), wrt);
      for (const Tensor& x : wrt) numbers.push_back((*second)[x].to_vector());
      return numbers;
    };
    const auto plain = run();
    CopyHooks hooks;
    const auto hooked = run();
    REQUIRE(hooked.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i)
      CHECK(std::equal(plain[i].begin(), plain[i].end(), hooked[i].begin(), hooked[i].end(),
                       [](double a, double b) { return a == b || (a != a && b != b); }));
    CHECK(hooks.counts.alive == 0);
  }
}

TEST_CASE("views are packed as they lie, expanded ones unexpanded, and slots that share share") {
  const Tensor x = random_leaf({3, 4}), row = random_leaf({4});
  CopyHooks hooks;
  Tape tape;
  const Tensor turned = transpose(tanh(x), 0, 1);
  const Tensor again = reshape(transpose(turned, 0, 1), {2, 6});
  const Tensor squares = mul(turned, turned), products = mul(again, again);
  const Tensor wide = expand(tanh(row), {3, 4});
  const Tensor scaled = mul(wide, wide);
  const Tensor loss = add(add(sum(squares), sum(products)), sum(scaled));
  CHECK(hooks.shapes == std::vector<Shape>{{3, 4}, {4}});
  const Graph graph = tape.graph();
  CHECK(graph.packings.size() == 2);
  CHECK(graph.saved_bytes() == 8 * (12 + 4));
  const Gradients g = tape.gradient(loss, {x, row});
  CHECK(hooks.counts.unpacked > 4);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 4; ++j) {
      const double y = std::tanh(select(select(x.detach(), 0, i), 0, j).item());
      CHECK(select(select(g[x], 0, i), 0, j).item() ==
            doctest::Approx(4 * y * (1 - y * y)).epsilon(1e-14));
    }
}

TEST_CASE("what was packed, and let go since, is packed again once") {
  const Tensor x = random_leaf({3, 4});
  CopyHooks hooks;
  Tape tape;
  for (int times = 1; times < 4; ++times) {
    tape.gradient(sum(mul(x, x)), {x});  // frees both slots of mul
    CHECK(hooks.counts.packed == times);
  }
}

TEST_CASE("hooks may decline, only the innermost is asked, and what was packed outlives them") {
  const Tensor x = random_leaf({4});
  Tape tape;
  Counts counts;
  Tensor loss;
  {
    CopyHooks outer;
    {
      MadeHooks decline([](const SavedInfo&, const Tensor&) { return nullptr; });
      loss = sum(exp(x));
      CHECK(outer.counts.packed == 0);
    }
    CHECK(tape.graph().packings.empty());
  }
  MadeHooks* copies = new MadeHooks([&](const SavedInfo&, const Tensor& saved) {
    return std::make_unique<Copy>(counts, clone(saved));
  });
  const Tensor y = sum(exp(loss));
  delete copies;
  CHECK(SavedTensorHooks::current() == nullptr);
  CHECK(counts.alive == 1);
  const Tensor dx = tape.gradient(y, {x})[x];
  CHECK(counts.alive == 0);
  CHECK(counts.unpacked == 1);
  CHECK(dx.numel() == 4);
}

TEST_CASE("NanGuard tells what a rule unpacked, and passes over what it left packed") {
  const Tensor a = random_leaf({2}), b = parameter(tensor({1e300, 5}, DType::f64));
  CopyHooks hooks;
  const NanGuard guard({.raise = false});
  Tape tape;
  const Tensor y = mul(a, b);
  tape.gradient(y, {a}, tensor({1e300, 1}, DType::f64));  // the rule reads b alone
  CHECK(hooks.counts.packed == 2);
  REQUIRE(guard.report() != nullptr);
  CHECK(guard.report()->operation == "mul");
  REQUIRE(guard.report()->operands.size() == 2);
  CHECK(guard.report()->operands[0].name == "g");
  CHECK(guard.report()->operands[1].name == "b");
}

TEST_CASE(
    "errors of pack leave no trace on the tape, errors of unpack the record where it is kept") {
  const Tensor x = random_leaf({4});
  Tape tape;
  const Tensor before = exp(x);
  {
    MadeHooks broken([](const SavedInfo&, const Tensor&) -> std::unique_ptr<PackedTensor> {
      throw ValueError("pack", "no");
    });
    check_throws(ErrorKind::value, {"pack: no"}, [&] { exp(before); });
  }
  CHECK(tape.size() == 1);
  bool fails = true;
  Tensor y;
  {
    MadeHooks hooks([&](const SavedInfo&, const Tensor& saved) {
      return std::make_unique<Made>([&fails, copy = clone(saved)] {
        if (fails) throw IoError("unpack", "not now");
        return copy;
      });
    });
    y = sum(exp(before));
  }
  check_throws(ErrorKind::io, {"unpack: not now"},
               [&] { tape.gradient(y, {x}, {}, {.keep = true}); });
  CHECK(Tape::recording() == &tape);
  fails = false;
  const double e = std::exp(select(before.detach(), 0, 0).item());
  CHECK(select(tape.gradient(y, {x})[x], 0, 0).item() ==
        doctest::Approx(e * select(before.detach(), 0, 0).item()).epsilon(1e-14));
}

TEST_CASE("what is unpacked must be what was packed: else StateError with operation and slot") {
  const Tensor x = random_leaf({4});
  const auto run_with = [&](const std::function<Tensor(const Tensor&)>& unpack) {
    MadeHooks hooks([&](const SavedInfo&, const Tensor& saved) {
      return std::make_unique<Made>([unpack, copy = clone(saved)] { return unpack(copy); });
    });
    Tape tape;
    const Tensor y = sum(exp(x));
    tape.gradient(y, {x});
  };
  check_throws(ErrorKind::state, {"exp: ", "\"y\"", "made", "f32 (4)", "f64 (4)"},
               [&] { run_with([](const Tensor& t) { return to(t, DType::f32); }); });
  check_throws(ErrorKind::state, {"exp: ", "f64 (2, 2)", "f64 (4)"}, [&] {
    run_with([](const Tensor& t) { return reshape(t, {2, 2}); });
  });
  check_throws(ErrorKind::state, {"exp: ", "undefined"},
               [&] { run_with([](const Tensor&) { return Tensor(); }); });
}

TEST_CASE("a copy does not go stale; what shares the original's storage does") {
  const Tensor x = random_leaf({4}), k = randn({4}, DType::f64);
  const Tensor first = k.detach();
  Tape tape;
  Tensor y;
  {
    CopyHooks hooks;
    y = sum(mul(x, k));
    const std::vector<double> values = k.to_vector();
    {
      const Tape::Pause pause;
      fill_(k, 3);
    }
    CHECK(tape.gradient(y, {x})[x].to_vector() == values);
  }
  MadeHooks same([](const SavedInfo&, const Tensor& saved) {
    return std::make_unique<Made>([saved] { return saved; });
  });
  const Tensor z = sum(mul(x, k));
  {
    const Tape::Pause pause;
    fill_(k, 4);
  }
  check_throws(ErrorKind::state, {"mul: ", "written to", "version"},
               [&] { tape.gradient(z, {x}); });
}

TEST_CASE("gradcheck passes to second order with hooks that keep every bit") {
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor scores = matmul(in[0], transpose(in[1], 0, 1));
    const Tensor weights = softmax(scores, -1);
    return matmul(weights, in[1]);
  };
  const std::vector<Tensor> inputs{randn({3, 4}, DType::f64), randn({5, 4}, DType::f64)};
  CopyHooks hooks;
  check_first_order(f, inputs);
  check_second_order(f, inputs);
  CHECK(hooks.counts.packed > 0);
}
