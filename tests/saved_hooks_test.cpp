// Saved-tensor hooks: what they see, what is kept in a tensor's place, and how it comes back.
#include "support/checks.h"
#include "support/folder.h"
#include "support/operation_run.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/gradcheck.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/saved_hooks.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/write.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <optional>

#include <sys/resource.h>

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

Tensor random_leaf(const Shape& shape) { return parameter(randn(shape, DType::f64)); }

nn::MultiHeadAttention small_attention(DType dtype = DType::f64) {
  Generator generator(5);
  return nn::MultiHeadAttention(
      {.embed_dim = 12, .num_heads = 3, .path = nn::AttentionPath::composed, .dtype = dtype},
      generator);
}

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
  CHECK(gradcheck(f, inputs).ok);
  CHECK(gradgradcheck(f, inputs).ok);
  CHECK(hooks.counts.packed > 0);
}

TEST_CASE(
    "attention keeps its activations in bf16: half the bytes, each storage once, near gradients") {
  const nn::MultiHeadAttention attention = small_attention(DType::f32);
  const Tensor x = parameter(randn({2, 7, 12}));
  const Tensor upstream = randn({2, 7, 12});
  const auto run = [&](bool packs, Graph& graph) {
    Tape tape;
    Tensor y;
    {
      std::optional<nn::KeepInBf16> hooks;
      if (packs) hooks.emplace();
      y = attention(x, nn::Mask::causal());
    }
    graph = tape.graph();
    return tape.gradient(y, {x, attention.in_proj_weight}, upstream);
  };
  Graph plain, packed;
  const Gradients right = run(false, plain), near = run(true, packed);
  CHECK(!packed.packings.empty());
  for (const Graph::Packing& packing : packed.packings) CHECK(packing.how == "bf16");
  // Parameters and the mask stay; every f32 activation takes half.
  std::int64_t kept_as_is = 0;
  std::vector<bool> counted(packed.storages.size(), false);
  for (const Graph::SavedSlot& slot : packed.saved) {
    const Graph::Value& value = packed.values[static_cast<std::size_t>(slot.value)];
    const auto id = static_cast<std::size_t>(value.storage);
    const Category category = packed.storages[id].category;
    if (slot.packing >= 0) CHECK(value.dtype == DType::f32);
    else if (category == Category::saved) CHECK(value.dtype != DType::f32);
    if (slot.packing >= 0 || category != Category::saved || counted[id]) continue;
    counted[id] = true;
    kept_as_is += packed.storages[id].bytes;
  }
  CHECK(2 * (packed.saved_activation_bytes() - kept_as_is) ==
        plain.saved_activation_bytes() - kept_as_is);
  // bf16 has 8 significant bits, so each factor is off by 2^-9; a gradient has a few such factors.
  for (const Tensor& of : {x, attention.in_proj_weight})
    CHECK(relative_error(near[of].to_vector(), right[of].to_vector()) < 8 * 0x1p-9);
  CHECK(near[x].to_vector() != right[x].to_vector());
  CHECK(graph::from_json(graph::to_json(packed)) == packed);
  Graph wrong = packed;
  wrong.saved[0].packing = static_cast<std::int64_t>(packed.packings.size());
  check_throws(ErrorKind::value, {"row 0 of saved", "packing names no row"},
               [&] { graph::from_json(graph::to_json(wrong)); });
  CHECK(graph::saved_table(packed).find("packed as bf16: ") != std::string::npos);
  CHECK(graph::saved_table(plain).find("packed") == std::string::npos);
}

TEST_CASE("softmax weights that two slots of attention save are one copy in bf16") {
  const Tensor q = parameter(randn({2, 3, 5, 4})), k = randn({2, 3, 5, 4}),
               v = parameter(randn({2, 3, 5, 4}));
  const nn::KeepInBf16 hooks;
  Tape tape;
  const Tensor y = nn::attention(q, k, v, {.path = nn::AttentionPath::composed});
  const Graph graph = tape.graph();
  std::vector<std::int64_t> packings;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = graph.values[static_cast<std::size_t>(slot.value)];
    if (numel(value.shape) == 2 * 3 * 5 * 5 && value.dtype == DType::f32)
      packings.push_back(slot.packing);
  }
  REQUIRE(packings.size() == 2);
  CHECK(packings[0] >= 0);
  CHECK(packings[0] == packings[1]);
}

TEST_CASE("the bytes that the graph counts are those that the tape holds; a dry run has the same") {
  const nn::MultiHeadAttention attention = small_attention(DType::f32);
  const auto run = [&](std::int64_t& freed, std::int64_t& peak) {
    const Tensor x = parameter(empty("x", {2, 7, 12}, DType::f32));
    if (!DryRun::active()) fill_(x, 0.5);
    const std::int64_t start = memory_stats().live;
    reset_peak();
    Graph graph;
    std::int64_t before = 0;
    {
      Tape tape;
      {
        const nn::KeepInBf16 hooks;
        attention(x, nn::Mask::causal());
      }
      graph = tape.graph();
      before = memory_stats().live;
    }
    freed = before - memory_stats().live;
    peak = memory_stats().peak - start;
    return graph;
  };
  std::int64_t freed = 0, peak = 0, dry_freed = 0, dry_peak = 0;
  const Graph graph = run(freed, peak);
  CHECK(freed == graph.saved_activation_bytes());
  const DryRun dry;
  CHECK(run(dry_freed, dry_peak) == graph);
  CHECK(dry_freed == freed);
  CHECK(dry_peak == peak);
}

TEST_CASE("activations on disk come back bit for bit, to second order, and leave no file") {
  const Folder folder;
  const nn::MultiHeadAttention attention = small_attention();
  const Tensor x = random_leaf({2, 7, 12}), upstream = randn({2, 7, 12}, DType::f64);
  const auto run = [&](bool on_disk) {
    Tape tape;
    Tensor y;
    {
      std::optional<nn::KeepOnDisk> hooks;
      if (on_disk) hooks.emplace(folder.file().parent_path());
      y = attention(x, nn::Mask::causal());
      CHECK(folder.size() == 0);  // the file has no name even while it is there
      if (on_disk) CHECK(!tape.graph().packings.empty());
      for (const Graph::Packing& packing : tape.graph().packings)
        CHECK(packing == Graph::Packing{"on disk", 0});
    }
    const Tensor dx = tape.gradient(y, {x}, upstream, {.create_graph = true})[x];
    const Gradients second = tape.gradient(dx, {x, attention.in_proj_weight}, upstream);
    return std::array{dx.to_vector(), second[x].to_vector(),
                      second[attention.in_proj_weight].to_vector()};
  };
  CHECK(run(true) == run(false));
  CHECK(folder.size() == 0);
}

TEST_CASE(
    "a folder that is not there, and a disk that is full, are IoErrors that name the folder") {
  const Folder folder;
  const std::filesystem::path path = folder.file().parent_path();
  check_throws(ErrorKind::io, {"KeepOnDisk", (path / "missing").string(), "No such file"},
               [&] { const nn::KeepOnDisk hooks(path / "missing"); });
  CHECK(SavedTensorHooks::current() == nullptr);

  // A limit on the size of files fails as a full disk does, in the middle of a write.
  const Tensor x = random_leaf({1000});
  Tape tape;
  nn::KeepOnDisk hooks(path);
  const Tensor y = exp(x);
  rlimit old;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{12000, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::optional<Thrown> thrown = thrown_by([&] { exp(y); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  REQUIRE(thrown.has_value());
  CHECK(thrown->kind == ErrorKind::io);
  CHECK(thrown->text.find(path.string()) != std::string::npos);
  CHECK(tape.size() == 1);
  const Tensor z = sum(exp(y));  // the disk has room again
  CHECK(tape.gradient(z, {x})[x].numel() == 1000);
  CHECK(folder.size() == 0);
}

TEST_CASE("KeepInBf16 leaves statistics, and what exponentials are taken of, as they are") {
  Generator random(31);
  const Tensor q = parameter(randn({1, 2, 32, 16}, DType::f32, random));
  const Tensor k = parameter(randn({1, 2, 32, 16}, DType::f32, random));
  const Tensor v = parameter(randn({1, 2, 32, 16}, DType::f32, random));
  const Tensor shift = full({1, 1, 1, 1}, 1000, DType::f32);  // moves no weight
  const Tensor seed = randn({1, 2, 32, 16}, DType::f32, random);
  const auto gradients = [&](bool rounds) {
    Tape tape;
    Tensor y;
    {
      std::optional<nn::KeepInBf16> hooks;
      if (rounds) hooks.emplace();
      y = fused_attention(mul(q, 1.5), mul(k, 0.5), mul(v, 1.0), {.scale = 0.25, .bias = shift});
    }
    return tape.gradient(y, {q, k, v}, seed);
  };
  const Gradients exact = gradients(false), rounded = gradients(true);
  for (const Tensor& leaf : {q, k, v}) {
    // 2^-9 of what is saved, times scores of up to about 5.
    CHECK(norm(sub(rounded[leaf], exact[leaf])).item() < 0.02 * norm(exact[leaf]).item());
    CHECK(rounded[leaf].to_vector() != exact[leaf].to_vector());
  }

  const Tensor logits = parameter(randn({4, 9}, DType::f32, random));
  const Tensor target = from_vector<std::int64_t>({1, 0, 8, 3}, {4});
  const auto loss_gradient = [&](bool rounds) {
    std::optional<nn::KeepInBf16> hooks;
    if (rounds) hooks.emplace();
    Tape tape;
    const Tensor far = add(logits, 1000.0);
    const Tensor y = add(cross_entropy(far, target), sum(logsumexp(far, {1})));
    return tape.gradient(y, {logits})[logits].to_vector();
  };
  CHECK(loss_gradient(true) == loss_gradient(false));
}
