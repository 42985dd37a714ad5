// nn::KeepInBf16 and nn::KeepOnDisk, hooks that keep saved tensors elsewhere.
#include "support/checks.h"
#include "support/file_size_limit.h"
#include "support/folder.h"
#include "support/operation_run.h"
#include "support/tensors.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/write.h>

#include <array>
#include <filesystem>
#include <optional>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

nn::MultiHeadAttention small_attention(DType dtype = DType::f64) {
  Generator generator(5);
  return nn::MultiHeadAttention(
      {.embed_dim = 12, .num_heads = 3, .path = nn::AttentionPath::composed, .dtype = dtype},
      generator);
}

}  // namespace

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
  {
    const FileSizeLimit limit(12000);
    check_throws(ErrorKind::io, {path.string()}, [&] { exp(y); });
  }
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
