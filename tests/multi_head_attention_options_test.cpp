// MultiHeadAttention beyond PyTorch's: grouped heads of keys and values, a scale, rotary positions,
// and both layouts of its projections. The others are in
// multi_head_attention_test.cpp.
#include "support/attention.h"
#include "support/checks.h"
#include "support/gradients.h"
#include "support/names.h"
#include "support/tensors.h"

#include <tapehead/core/memory.h>
#include <tapehead/nn/projection_layouts.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/windows.h>

#include <cmath>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::few_roundings;
using tests::make_attention;
using tests::names_of;
using tests::noise;

namespace {

using Names = std::vector<std::string>;

// 4 query heads of 2 features for each of `kv_heads` heads of keys.
MultiHeadAttentionOptions grouped(std::int64_t kv_heads) {
  return {.embed_dim = 8, .num_heads = 4, .num_kv_heads = kv_heads};
}

// Each head's rows (2 of them) of a projection `times` times, next to one another.
Tensor repeat_rows(const Tensor& rows, std::int64_t times) {
  std::vector<Tensor> parts;
  for (const Tensor& head : split(rows, 2))
    for (std::int64_t i = 0; i < times; ++i) parts.push_back(head);
  return cat(parts, 0);
}

// The packed rows of grouped heads as those of as many key heads as query heads.
Tensor ungrouped(const Tensor& packed, std::int64_t kv_heads) {
  const std::vector<Tensor> parts = split(packed.detach(), {8, 2 * kv_heads, 2 * kv_heads});
  const std::int64_t group = 4 / kv_heads;
  return cat({parts[0], repeat_rows(parts[1], group), repeat_rows(parts[2], group)}, 0);
}

}  // namespace

// ---- grouped heads -----------------------------------------------------------------------------

TEST_CASE("ATTN-6 grouped heads have smaller projections, which serve neighbouring query heads") {
  const Tensor x = noise({2, 5, 8}, 1);
  const Tape::Pause pause;
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    const MultiHeadAttention attn = make_attention(grouped(kv_heads));
    CHECK(attn.in_proj_weight.shape() == Shape{8 + 4 * kv_heads, 8});
    CHECK(attn.in_proj_bias.shape() == Shape{8 + 4 * kv_heads});
    MultiHeadAttention full = make_attention({.embed_dim = 8, .num_heads = 4});
    full.load_state_dict({{"in_proj_weight", ungrouped(attn.in_proj_weight, kv_heads)},
                          {"in_proj_bias", ungrouped(attn.in_proj_bias, kv_heads)},
                          {"out_proj.weight", attn.out_proj.weight},
                          {"out_proj.bias", attn.out_proj.bias}});
    const auto [y, weights] = attn.with_weights(x, x, x, Mask::causal(), HeadWeights::per_head);
    CHECK(allclose(y, full(x, Mask::causal()), few_roundings, few_roundings));
    CHECK(weights.shape() == Shape{2, 4, 5, 5});
  }
}

TEST_CASE("grouped heads with their own features of keys and values, in either path") {
  MultiHeadAttentionOptions options = grouped(2);
  options.kdim = 3;
  options.vdim = 5;
  const MultiHeadAttention attn = make_attention(options);
  CHECK(attn.k_proj_weight.shape() == Shape{4, 3});
  CHECK(attn.v_proj_weight.shape() == Shape{4, 5});
  options.path = AttentionPath::fused;
  const MultiHeadAttention fused = make_attention(options);
  const Tensor q = noise({2, 3, 8}, 1), k = noise({2, 4, 3}, 2), v = noise({2, 4, 5}, 3);
  const Tape::Pause pause;
  CHECK(allclose(fused(q, k, v), attn(q, k, v), few_roundings, few_roundings));
}

TEST_CASE("grouped heads' packed projections have right gradients of both orders") {
  const auto f = [](const std::vector<Tensor>& in) {
    MultiHeadAttention attn = make_attention(grouped(2));
    attn.in_proj_weight = in[1];
    attn.in_proj_bias = in[2];
    return attn(in[0], Mask::causal());
  };
  const std::vector<Tensor> inputs = {noise({2, 3, 8}, 1), noise({16, 8}, 2), noise({16}, 3)};
  check_first_order(f, inputs, {.fast = true});
  check_second_order(f, inputs, {.fast = true});
}

TEST_CASE("a cache of grouped heads holds their keys only, and decodes as one pass") {
  const Tensor x = noise({2, 5, 8}, 1);
  const Tape::Pause pause;
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    const MultiHeadAttention attn = make_attention(grouped(kv_heads));
    const Tensor whole = attn(x, Mask::causal());
    KeyValueCache cache;
    const std::int64_t before = memory_stats().live;
    attn.decode(narrow(x, 1, 0, 4), cache);
    CHECK(memory_stats().live - before == 2 * 2 * kv_heads * 4 * 2 * 8);  // k, v: (2, heads, 4, 2)
    // 1e-12 is what is asked of a cache.
    CHECK(allclose(attn.decode(narrow(x, 1, 4, 1), cache), narrow(whole, 1, 4, 1), 0, 1e-12));
  }
}

TEST_CASE("ATTN-9 heads that do not divide are value errors that name both") {
  check_throws(ErrorKind::value, {"num_heads 4", "num_kv_heads 3"},
               [] { make_attention(grouped(3)); });
  check_throws(ErrorKind::value, {"num_kv_heads 0"}, [] { make_attention(grouped(0)); });
  CHECK(make_attention(grouped(2)).summary() == "MultiHeadAttention(8, 4 heads, 2 of keys)");
}

// ---- scale -------------------------------------------------------------------------------------

TEST_CASE("a scale replaces 1 / sqrt(features of a head), in every call") {
  const Tensor x = noise({3, 6}, 1);
  const Tape::Pause pause;
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 2, .scale = 0.25});
  // The same as queries that are multiplied by 0.25 sqrt(3) beforehand.
  MultiHeadAttention usual = make_attention({.embed_dim = 6, .num_heads = 2});
  const double factor = 0.25 * std::sqrt(3.0);
  const auto scaled = [&](const Tensor& packed) {
    const std::vector<Tensor> parts = split(packed.detach(), {6, 12});
    return cat({mul(parts[0], factor), parts[1]}, 0);
  };
  usual.load_state_dict({{"in_proj_weight", scaled(attn.in_proj_weight)},
                         {"in_proj_bias", scaled(attn.in_proj_bias)},
                         {"out_proj.weight", attn.out_proj.weight},
                         {"out_proj.bias", attn.out_proj.bias}});
  const Tensor expected = usual(x, Mask::causal());
  CHECK(allclose(attn(x, Mask::causal()), expected, few_roundings, few_roundings));
  CHECK(allclose(attn.with_weights(x, x, x, Mask::causal()).output, expected, few_roundings,
                 few_roundings));
  KeyValueCache cache;
  CHECK(allclose(attn.decode(x, cache), expected, few_roundings, few_roundings));
}

// ---- rotary positions --------------------------------------------------------------------------

TEST_CASE("rotary positions turn queries and keys, of every head, before the scores") {
  MultiHeadAttentionOptions options = grouped(2);
  options.rotary = RotaryOptions{.base = 100, .pairs = RotaryPairs::halves};
  const MultiHeadAttention attn = make_attention(options);
  const Tensor x = noise({2, 3, 8}, 1);
  const Tape::Pause pause;
  const auto heads = [&](std::int64_t start, std::int64_t rows) {
    const Tensor y = linear(x, narrow(attn.in_proj_weight, 0, start, rows),
                            narrow(attn.in_proj_bias, 0, start, rows));
    return split_heads(y, rows / 2);
  };
  const RotaryTable table = rotary_table(3, 2, 0, *options.rotary, DType::f64);
  const Tensor q = rotate_positions(heads(0, 8), table);
  const Tensor k = rotate_positions(heads(8, 4), table);
  const Tensor y = attention(q, k, heads(12, 4), {.mask = Mask::causal()});
  CHECK(equal(attn(x, Mask::causal()), attn.out_proj(merge_heads(y))));
}

TEST_CASE("rotary attention knows order, which attention by itself does not") {
  const Tensor x = noise({1, 4, 8}, 1);
  const Tape::Pause pause;
  const auto last = [&](const MultiHeadAttention& attn, const Tensor& tokens) {
    return select(attn(tokens), 1, -1);
  };
  const Tensor swapped = cat({narrow(x, 1, 1, 1), narrow(x, 1, 0, 1), narrow(x, 1, 2, 2)}, 1);
  const MultiHeadAttention plain = make_attention(grouped(4));
  CHECK(allclose(last(plain, swapped), last(plain, x), few_roundings, few_roundings));
  MultiHeadAttentionOptions options = grouped(4);
  options.rotary.emplace();
  const MultiHeadAttention rotary = make_attention(options);
  CHECK(!allclose(last(rotary, swapped), last(rotary, x), 1e-3, 1e-3));
}

TEST_CASE("rotary attention decodes as one pass, with grouped heads, however tokens are cut") {
  const Tensor x = noise({2, 6, 8}, 1);
  const Tape::Pause pause;
  for (const RotaryPairs pairs : {RotaryPairs::adjacent, RotaryPairs::halves}) {
    MultiHeadAttentionOptions options = grouped(2);
    options.rotary = RotaryOptions{.pairs = pairs};
    const MultiHeadAttention attn = make_attention(options);
    const Tensor whole = attn(x, Mask::causal());
    for (const Dims& lengths : {Dims{1, 1, 1, 1, 1, 1}, Dims{3, 2, 1}}) {
      KeyValueCache cache;
      for (const std::int64_t length : lengths) {
        const std::int64_t at = cache.size();
        const Tensor y = attn.decode(narrow(x, 1, at, length), cache);
        // 1e-12 is what is asked of a cache.
        CHECK(allclose(y, narrow(whole, 1, at, length), 0, 1e-12));
      }
    }
  }
}

TEST_CASE("rotary attention has right gradients, those of the projections included") {
  const auto f = [](const std::vector<Tensor>& in) {
    MultiHeadAttentionOptions options = grouped(2);
    options.rotary.emplace();
    MultiHeadAttention attn = make_attention(options);
    attn.in_proj_weight = in[1];
    return attn(in[0], Mask::causal());
  };
  const std::vector<Tensor> inputs = {noise({2, 3, 8}, 1), noise({16, 8}, 2)};
  check_first_order(f, inputs, {.fast = true});
  check_second_order(f, inputs, {.fast = true});
}

TEST_CASE("rotary positions of odd heads, or of keys elsewhere, are errors") {
  MultiHeadAttentionOptions options{.embed_dim = 6, .num_heads = 2, .rotary = RotaryOptions{}};
  check_throws(ErrorKind::value, {"3 features", "even"}, [&] { make_attention(options); });
  options.num_heads = 3;
  const MultiHeadAttention attn = make_attention(options);
  const Tensor x = noise({2, 6}, 1), memory = noise({4, 6}, 2);
  check_throws(ErrorKind::shape, {"rotary", "(4, 6)"}, [&] { attn(x, memory, memory); });
}

// ---- a bias while decoding ---------------------------------------------------------------------

TEST_CASE("ALiBi's bias decodes as one pass when it is given for the offset") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 3});
  const Tensor x = noise({2, 5, 6}, 1);
  const Tape::Pause pause;
  const auto bias = [](std::int64_t queries, std::int64_t offset) {
    return alibi_bias(3, queries, offset + queries, offset, DType::f64);
  };
  const Tensor whole = attn(x, x, x, Mask::causal(), bias(5, 0));
  CHECK(!allclose(whole, attn(x, Mask::causal()), 1e-3, 1e-3));
  KeyValueCache cache;
  for (const std::int64_t length : {2, 1, 2}) {
    const std::int64_t at = cache.size();
    const Tensor y = attn.decode(narrow(x, 1, at, length), cache, {}, bias(length, at));
    CHECK(allclose(y, narrow(whole, 1, at, length), 0, 1e-12));
  }
}

// ---- layouts of the projections ----------------------------------------------------------------

TEST_CASE("packed projections are taken apart and joined again by name, below any prefix") {
  const MultiHeadAttention attn = make_attention(grouped(2));
  StateDict state = attn.state_dict();
  for (NamedTensor& entry : state) entry.name = "layers.0." + entry.name;
  state.push_back({"kin_proj_weight", ones({1})});  // another word
  const StateDict separate = separate_projections(state);
  CHECK(names_of(separate) == Names{"layers.0.q_proj_weight", "layers.0.k_proj_weight",
                                    "layers.0.v_proj_weight", "layers.0.in_proj_bias",
                                    "layers.0.out_proj.weight", "layers.0.out_proj.bias",
                                    "kin_proj_weight"});
  CHECK(separate[1].tensor.shape() == Shape{4, 8});
  const StateDict packed = packed_projections(separate);
  CHECK(names_of(packed) == names_of(state));
  for (std::size_t i = 0; i < state.size(); ++i) CHECK(equal(packed[i].tensor, state[i].tensor));
}

TEST_CASE("three Linears of another library load as packed projections, biases included") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor q = noise({4, 4}, 1), k = noise({4, 4}, 2), v = noise({4, 4}, 3);
  const Tensor q_bias = noise({4}, 4), k_bias = noise({4}, 5), v_bias = noise({4}, 6);
  const StateDict state = {{"v_proj.weight", v},
                           {"v_proj.bias", v_bias},
                           {"q_proj.weight", q},
                           {"q_proj.bias", q_bias},
                           {"k_proj.weight", k},
                           {"k_proj.bias", k_bias},
                           {"out_proj.weight", noise({4, 4}, 7)},
                           {"out_proj.bias", noise({4}, 8)}};
  check_throws(ErrorKind::value,
               {"\"in_proj_weight\" is missing", "\"q_proj.weight\" is unexpected"},
               [&] { attn.load_state_dict(state); });
  attn.load_state_dict(packed_projections(state));
  CHECK(equal(attn.in_proj_weight, cat({q, k, v}, 0)));
  CHECK(equal(attn.in_proj_bias, cat({q_bias, k_bias, v_bias}, 0)));
}

TEST_CASE("weights whose columns differ have no packed layout and stay; halves are errors") {
  const MultiHeadAttention attn =
      make_attention({.embed_dim = 4, .num_heads = 2, .kdim = 3, .vdim = 5});
  CHECK(names_of(packed_projections(attn.state_dict())) == names_of(attn.state_dict()));
  check_throws(ErrorKind::value, {"\"a.q_proj.weight\"", "\"a.k_proj.weight\""}, [] {
    packed_projections({{"a.q_proj.weight", ones({2, 2})}});
  });
  check_throws(ErrorKind::shape, {"\"q_proj_weight\"", "(2)"}, [] {
    packed_projections(
        {{"q_proj_weight", ones({2})}, {"k_proj_weight", ones({2})}, {"v_proj_weight", ones({2})}});
  });
  check_throws(ErrorKind::shape, {"\"in_proj_weight\"", "(5, 4)"}, [] {
    separate_projections({{"in_proj_weight", ones({5, 4})}});
  });
}
