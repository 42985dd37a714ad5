// Sections 4.4 and 5, what attention costs: parameters, floating-point operations, and the memory
// of the weights that the backward pass keeps. All from dry runs of modules: the operations' own
// counts and the tape's own list of what is saved.
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>

#include <set>

namespace tapehead::program::lecture {

namespace {

// "d 768, T 512"
std::string sizes(std::int64_t d, std::int64_t T) {
  return "d " + std::to_string(d) + ", T " + std::to_string(T);
}

// ---- group 9 ------------------------------------------------------------------------------------

std::int64_t parameter_count(std::int64_t d, std::int64_t heads) {
  const DryRun dry;
  Generator generator;
  return nn::MultiHeadAttention({.embed_dim = d, .num_heads = heads}, generator).parameter_count();
}

// What the graph of causal self-attention on one sequence counts.
struct Counts {
  std::int64_t projections = 0;  // floating-point operations of Q, K, V and W_O
  std::int64_t attention = 0;    // of Q K^T and A V
  std::int64_t others = 0;       // of all else
  std::int64_t elementwise = 0;  // elements that mask and softmax write, which are counted apart
  std::int64_t flops() const { return projections + attention + others; }
};

Counts count_attention(std::int64_t d, std::int64_t heads, std::int64_t T) {
  const DryRun dry;
  Generator generator;
  const nn::MultiHeadAttention attention({.embed_dim = d, .num_heads = heads}, generator);
  const Tensor x = randn({1, T, d}, DType::f32, generator);
  Tape tape;
  const Tensor y = attention(x, nn::Mask::causal());
  const Graph graph = tape.graph();
  Counts counts;
  for (const Graph::Node& node : graph.nodes) {
    const Shape& output = graph.values[static_cast<std::size_t>(node.output)].shape;
    if (node.operation == "linear") counts.projections += node.flops;
    else if (node.operation == "matmul") counts.attention += node.flops;
    else counts.others += node.flops;
    if (node.operation == "masked_fill" || node.operation == "softmax")
      counts.elementwise += numel(output);
  }
  return counts;
}

struct Share {
  std::int64_t d, heads, T;
  const char* percent;
};
constexpr Share shares[] = {
    {768, 12, 512, "25.0"},   {768, 12, 1536, "50.0"},  {768, 12, 8192, "84.2"},
    {4096, 32, 2048, "20.0"}, {4096, 32, 8192, "50.0"}, {4096, 32, 32768, "80.0"},
};

}  // namespace

Group parameters_and_flops(int) {
  Group group{"9", "Parameters and floating-point operations (sections 4.4 and 5.1)",
              "2 operations per multiply-add of matrix products, as the graph counts them; causal"};
  for (const std::int64_t heads : {1, 2, 4, 12, 48}) {
    constexpr std::int64_t d = 768;
    group.add("parameters, d 768, h " + std::to_string(heads) + ": 4 d^2 + 4 d", "2362368",
              static_cast<double>(parameter_count(d, heads)), exactly(4 * d * d + 4 * d));
  }
  Counts off;  // from the formulas, summed over the table
  for (const auto& [d, heads, T, percent] : shares) {
    const Counts counts = count_attention(d, heads, T);
    const double share =
        100 * static_cast<double>(counts.attention) / static_cast<double>(counts.flops());
    group.add("share of Q K^T and A V, " + sizes(d, T) + ", %", percent, share, rounds_to(percent));
    off.projections += std::abs(counts.projections - 8 * T * d * d);
    off.attention += std::abs(counts.attention - 4 * T * T * d);
    off.others += counts.others;
    off.elementwise += std::abs(counts.elementwise - 2 * heads * T * T);
  }
  const auto exact = [&](const char* name, std::int64_t difference, const char* note = "") {
    group.add(name, "0", static_cast<double>(difference), exactly(0), note);
  };
  exact("projections, counted - 8 T d^2", off.projections);
  exact("attention, counted - 4 T^2 d", off.attention, "all T^2 positions, the hidden ones too");
  exact("counted in other operations", off.others);
  exact("elements of mask and softmax - 2 h T^2", off.elementwise,
        "elementwise work is counted apart: it is in none of the figures above");
  exact("12 heads - 1 head, d 768, T 512",
        count_attention(768, 12, 512).flops() - count_attention(768, 1, 512).flops());
  return group;
}

// ---- group 10 -----------------------------------------------------------------------------------

namespace {

constexpr double bytes_in_bf16 = 2, GiB = 1024.0 * 1024 * 1024;

struct Saved {
  std::size_t tensors = 0;  // weights of attention that the backward pass keeps
  double elements = 0;      // of all of them
};

// The forward pass of a GPT for one step of training, and what of shape (B, h, T, T) it saves.
Saved saved_weights(const nn::GptOptions& options, std::int64_t batch) {
  const DryRun dry;
  Generator generator;
  const nn::Gpt model(options, generator);
  const std::int64_t T = options.context;
  const Tensor tokens = zeros({batch, T}, DType::i64);
  Tape tape;
  const Tensor logits = model(tokens);
  const Graph graph = tape.graph();
  std::set<std::int64_t> seen;
  Saved saved;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = graph.values[static_cast<std::size_t>(slot.value)];
    if (value.shape != Shape{batch, options.heads, T, T} || !seen.insert(value.storage).second)
      continue;
    ++saved.tensors;
    saved.elements += static_cast<double>(numel(value.shape));
  }
  return saved;
}

struct Model {
  const char* name;
  nn::GptOptions options;
  std::int64_t batch;
  const char *per_layer, *all_layers;  // GiB
};

}  // namespace

Group memory(int) {
  const Model models[] = {
      {"GPT-2 small, B 8, T 1024",
       {.vocab_size = 50257, .context = 1024, .layers = 12, .heads = 12, .dim = 768},
       8,
       "0.19",
       "2.2"},
      {"GPT-2 small, B 8, T 4096",
       {.vocab_size = 50257, .context = 4096, .layers = 12, .heads = 12, .dim = 768},
       8,
       "3.00",
       "36.0"},
      {"7B, B 1, T 32768",
       {.vocab_size = 32000, .context = 32768, .layers = 32, .heads = 32, .dim = 4096},
       1,
       "64.00",
       "2048"},
  };
  Group group{
      "10", "Memory of the weights A that the backward pass keeps (section 5.2)",
      "nn::Gpt in dry runs in f32; the lecture counts bf16, which is 2 bytes of each 4 listed"};
  reset_peak();
  const std::int64_t before = memory_stats().peak;
  for (const auto& [name, options, batch, per_layer, all_layers] : models) {
    const Saved saved = saved_weights(options, batch);
    const double total = saved.elements * bytes_in_bf16 / GiB;
    const auto layers = static_cast<double>(options.layers);
    group.add(std::string(name) + ": GiB a layer", per_layer, total / layers, rounds_to(per_layer));
    group.add(std::string(name) + ": GiB", all_layers, total, rounds_to(all_layers));
    group.add(std::string(name) + ": A saved a layer", "1",
              static_cast<double>(saved.tensors) / layers, exactly(1));
  }
  group.add("bytes allocated for it", "", static_cast<double>(memory_stats().peak - before),
            exactly(0));
  return group;
}

}  // namespace tapehead::program::lecture
