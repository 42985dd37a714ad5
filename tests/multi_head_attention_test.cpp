// MultiHeadAttention with the options that PyTorch's has. Beyond these:
// multi_head_attention_options_test.cpp.
#include "support/attention.h"
#include "support/checks.h"
#include "support/gradients.h"
#include "support/names.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <optional>
#include <set>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::infinity;
using tests::make_attention;
using tests::noise;
using tests::operations;

namespace {

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("h = 1 equals the single-head formula element by element") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 1});
  const Tensor x = noise({2, 4, 6}, 1);
  const Tape::Pause pause;
  const auto part = [&](std::int64_t i) {
    return linear(x, narrow(attn.in_proj_weight, 0, 6 * i, 6),
                  narrow(attn.in_proj_bias, 0, 6 * i, 6));
  };
  const Tensor q = part(0), k = part(1), v = part(2);
  const Tensor hidden = triu(ones({4, 4}, DType::f64), 1);
  Tensor scores = matmul(q, transpose(k, 1, 2)) * (1 / std::sqrt(6.0));
  scores = masked_fill(scores, gt(hidden, 0), -infinity);
  const Tensor expected =
      linear(matmul(softmax(scores, -1), v), attn.out_proj.weight, attn.out_proj.bias);
  CHECK(allclose(attn(x, Mask::causal()), expected, 1e-14, 1e-15));
}

TEST_CASE("heads attend apart: each equals attention on its own slice of the projections") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 3, .bias = false});
  const Tensor x = noise({4, 6}, 1);
  const Tape::Pause pause;
  const auto part = [&](std::int64_t i, std::int64_t head) {
    return linear(x, narrow(attn.in_proj_weight, 0, 6 * i + 2 * head, 2));
  };
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < 3; ++h)
    heads.push_back(attention(part(0, h), part(1, h), part(2, h)));
  CHECK(allclose(attn(x), linear(cat(heads, 1), attn.out_proj.weight), 1e-13, 1e-14));
}

TEST_CASE(
    "the tape of self-attention lists its steps, and saves one T x T activation and the mask") {
  constexpr std::int64_t B = 2, T = 7, d = 6, h = 3;
  Generator generator(1);
  MultiHeadAttention attn({.embed_dim = d, .num_heads = h}, generator);
  const Tensor x = parameter(randn({B, T, d}));
  Tape tape;
  const Tensor y = attn(x, Mask::causal());
  const Graph graph = tape.graph();
  const Names projection = {"narrow", "narrow", "linear", "reshape", "transpose"};
  Names expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), projection.begin(), projection.end());
  for (const char* step : {"transpose", "matmul", "masked_fill", "softmax", "matmul", "transpose",
                           "reshape", "linear"})
    expected.push_back(step);
  CHECK(operations(graph) == expected);

  std::set<std::int64_t> squares;
  Names slots;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = graph.values[static_cast<std::size_t>(slot.value)];
    if (value.shape != Shape{B, h, T, T}) continue;
    squares.insert(value.storage);
    slots.push_back(graph.nodes[static_cast<std::size_t>(slot.node)].operation + "." + slot.slot);
  }
  CHECK(squares.size() == 1);
  CHECK(slots == Names{"softmax.y", "matmul.a"});
  // q, k, v and the merged heads; x is a leaf here. The mask is one byte an element.
  CHECK(graph.saved_activation_bytes() == 4 * B * h * T * T + 16 * B * T * d + T * T);
}

TEST_CASE("the scores are masked and normalised in place: one T x T buffer in the forward pass") {
  constexpr std::int64_t T = 256, square = 4 * T * T;
  MultiHeadAttention attn({.embed_dim = 8, .num_heads = 1});
  const Tensor x = randn({1, T, 8});
  Tape tape;
  const std::int64_t before = memory_stats().live;
  reset_peak();
  const Tensor y = attn(x, Mask::causal());
  // Beside it only the mask (a quarter) and the (T, 8) tensors, a dozen at most.
  CHECK(memory_stats().peak - before < square + square / 4 + square / 2);
}

TEST_CASE("a dry run saves what the real run saves, and allocates nothing") {
  Generator generator(1);
  const auto saved = [&](bool dry) {
    std::optional<DryRun> scope;
    if (dry) scope.emplace();
    MultiHeadAttention attn({.embed_dim = 6, .num_heads = 2}, generator);
    const Tensor x = randn({2, 5, 6});
    Tape tape;
    const Tensor y = attn(x, Mask::causal() & Mask::padding({3, 5}));
    const Graph graph = tape.graph();
    tape.gradient(sum(y), attn.parameters());
    return graph;
  };
  const std::int64_t live = memory_stats().live;
  reset_peak();
  const Graph planned = saved(true);
  CHECK(memory_stats().peak == live);
  CHECK(planned == saved(false));
}

TEST_CASE("cross-attention with its own key and value features, and its gradients") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .kdim = 3, .vdim = 5});
  CHECK(!attn.in_proj_weight.defined());
  CHECK(attn.k_proj_weight.shape() == Shape{4, 3});
  CHECK(attn.v_proj_weight.shape() == Shape{4, 5});
  const auto f = [&](const std::vector<Tensor>& in) {
    MultiHeadAttention copy =
        make_attention({.embed_dim = 4, .num_heads = 2, .kdim = 3, .vdim = 5});
    copy.k_proj_weight = in[3];
    copy.in_proj_bias = in[4];
    return copy(in[0], in[1], in[2], Mask::padding({3, 2}));
  };
  const std::vector<Tensor> inputs = {noise({2, 2, 4}, 1), noise({2, 3, 3}, 2), noise({2, 3, 5}, 3),
                                      noise({4, 3}, 4), noise({12}, 5)};
  check_first_order(f, inputs);
}

TEST_CASE("self-attention's packed projections have right gradients of both orders") {
  const auto f = [](const std::vector<Tensor>& in) {
    MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
    attn.in_proj_weight = in[1];
    attn.in_proj_bias = in[2];
    attn.out_proj.weight = in[3];
    return attn(in[0], Mask::causal());
  };
  const std::vector<Tensor> inputs = {noise({2, 3, 4}, 1), noise({12, 4}, 2), noise({12}, 3),
                                      noise({4, 4}, 4)};
  check_first_order(f, inputs, {.fast = true});
  check_second_order(f, inputs, {.fast = true});
}

TEST_CASE("input without a batch gives the batch's result without a batch") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({5, 4}, 1);
  const Mask mask = Mask::causal() & Mask::padding(boolean({1, 0, 0, 0, 0}));
  const Tape::Pause pause;
  const Tensor batched = attn(unsqueeze(x, 0), mask);
  CHECK(equal(attn(x, mask), squeeze(batched, 0)));
  const auto result = attn.with_weights(x, x, x, mask, HeadWeights::per_head);
  CHECK(result.weights.shape() == Shape{2, 5, 5});
  CHECK(attn.with_weights(x, x, x).weights.shape() == Shape{5, 5});
}

TEST_CASE("ATTN-7 weights on request: averaged or per head, before dropout, the result unchanged") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
  const Tensor x = noise({3, 5, 4}, 1);
  const Mask mask = Mask::causal();
  const Tape::Pause pause;
  manual_seed(2);
  const Tensor plain = attn(x, mask);
  manual_seed(2);
  const auto per_head = attn.with_weights(x, x, x, mask, HeadWeights::per_head);
  const auto averaged = attn.with_weights(x, x, x, mask);
  CHECK(equal(per_head.output, plain));
  CHECK(per_head.weights.shape() == Shape{3, 2, 5, 5});
  CHECK(allclose(sum(per_head.weights, {-1}), ones({3, 2, 5}, DType::f64), 1e-14, 0));
  CHECK(allclose(averaged.weights, mean(per_head.weights, {1}), 1e-14, 0));
  const Tensor hidden = Mask::causal().hidden({5, 5});
  CHECK(sum(masked_fill(averaged.weights, logical_not(hidden), 0)).item() == 0);
}

TEST_CASE("the returned weights can be differentiated") {
  const auto f = [](const std::vector<Tensor>& in) {
    const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
    auto result = attn.with_weights(in[0], in[0], in[0], Mask::causal());
    return std::vector<Tensor>{result.output, result.weights};
  };
  check_first_order(f, {noise({2, 3, 4}, 1)});
}

TEST_CASE("ATTN-4 dropout acts in training mode only: evaluation draws nothing") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
  MultiHeadAttention without = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({3, 5, 4}, 1);
  const Tape::Pause pause;
  CHECK(!equal(attn(x), without(x)));
  attn.eval();
  const RandomState before = default_generator().state();
  const Tensor first = attn(x);
  CHECK(equal(first, attn(x)));
  CHECK(equal(first, without(x)));
  CHECK(default_generator().state() == before);
}

TEST_CASE("ATTN-9 options that do not fit are value errors") {
  check_throws(ErrorKind::value, {"embed_dim 10", "num_heads 4"},
               [] { MultiHeadAttention({.embed_dim = 10, .num_heads = 4}); });
  check_throws(ErrorKind::value, {"num_heads 0"},
               [] { MultiHeadAttention({.embed_dim = 10, .num_heads = 0}); });
  check_throws(ErrorKind::value, {"kdim -1"},
               [] { MultiHeadAttention({.embed_dim = 2, .num_heads = 1, .kdim = -1}); });
  check_throws(ErrorKind::value, {"dropout"},
               [] { MultiHeadAttention({.embed_dim = 2, .num_heads = 1, .dropout = 2}); });
}

TEST_CASE("inputs that do not fit are shape errors that name all three") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({2, 3, 4}, 1);
  const auto rejects = [&](const Tensor& q, const Tensor& k, const Tensor& v, const char* rule) {
    check_throws(ErrorKind::shape, {"query", "key", "value", rule}, [&] { attn(q, k, v); });
  };
  rejects(noise({4}, 1), x, x, "(time, features)");
  rejects(x, noise({3, 4}, 1), x, "(time, features)");
  rejects(noise({2, 3, 5}, 1), x, x, "features");
  rejects(x, x, noise({2, 4, 4}, 1), "equal time");
  rejects(x, noise({1, 3, 4}, 1), noise({1, 3, 4}, 1), "batch");
}

TEST_CASE("projections start uniform as Linear's, or as PyTorch's attention on request") {
  Generator generator(1);
  const MultiHeadAttention plain({.embed_dim = 64, .num_heads = 4, .dtype = DType::f64}, generator);
  const MultiHeadAttention xavier({.embed_dim = 64,
                                   .num_heads = 4,
                                   .init = ProjectionInit::xavier_uniform,
                                   .dtype = DType::f64},
                                  generator);
  const auto largest = [](const Tensor& x) { return amax(maximum(x, 0 - x)).item(); };
  const Tape::Pause pause;
  // 12288 draws: the largest is within 0.5 % of the bound but for a chance of e^-60.
  CHECK(largest(plain.in_proj_weight) == doctest::Approx(1 / 8.0).epsilon(0.005));
  CHECK(largest(xavier.in_proj_weight) == doctest::Approx(std::sqrt(6 / 256.0)).epsilon(0.005));
  CHECK(largest(plain.in_proj_weight) <= 1 / 8.0);
  CHECK(largest(xavier.in_proj_bias) == 0);
  CHECK(largest(xavier.out_proj.bias) == 0);
  CHECK(largest(plain.in_proj_bias) > 0);
}
