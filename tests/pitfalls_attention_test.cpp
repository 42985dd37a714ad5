// Faults in attention that users of other frameworks met. A fault has an id, which opens the names
// of its tests, here and in the files of the modules.
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/masked.h>

#include <cmath>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::f64;
using tests::noise;

namespace {

using Values = std::vector<double>;

// Without biases, and with these weights.
MultiHeadAttention attention_of(std::int64_t heads, const NestedList& in, const NestedList& out) {
  MultiHeadAttention attn(
      {.embed_dim = f64(out).size(0), .num_heads = heads, .bias = false, .dtype = DType::f64});
  attn.load_state_dict({{"in_proj_weight", f64(in)}, {"out_proj.weight", f64(out)}});
  return attn;
}

}  // namespace

TEST_CASE("ATTN-1: true is 'may attend' in keep and 'blocked' in hide, at every entry point") {
  const Tensor flags = tensor({1, 0}, DType::boolean);
  const Tensor q = zeros({1, 1}, DType::f64), k = zeros({2, 1}, DType::f64), v = f64({{10}, {20}});
  const MultiHeadAttention attn = attention_of(1, {{0}, {0}, {1}}, {{1}});
  const Tape::Pause pause;
  CHECK(attention_weights(q, k, {.mask = Mask::keep(flags)}).to_vector() == Values{1, 0});
  CHECK(attention_weights(q, k, {.mask = Mask::hide(flags)}).to_vector() == Values{0, 1});
  CHECK(attention(q, k, v, {.mask = Mask::keep(flags)}).item() == 10);
  CHECK(attention(q, k, v, {.mask = Mask::hide(flags)}).item() == 20);
  CHECK(attn(q, v, v, Mask::keep(flags)).item() == 10);
  CHECK(attn(q, v, v, Mask::hide(flags)).item() == 20);
  CHECK(attn.with_weights(q, v, v, Mask::keep(flags)).weights.to_vector() == Values{1, 0});
  CHECK(fused_attention(q, k, v, {.hidden = flags}).item() == 20);
}

TEST_CASE(
    "ATTN-2: floats are added to the scores, and are never taken for a mask of true and false") {
  const Tensor q = zeros({1, 1}, DType::f64), k = zeros({2, 1}, DType::f64), v = f64({{1}, {3}});
  CHECK(fused_attention(q, k, v, {.bias = f64({0, std::log(3.0)})}).item() ==
        doctest::Approx(2.5).epsilon(1e-14));
  CHECK(fused_attention(q, k, v, {.bias = f64({1, 0})}).item() ==
        doctest::Approx(1.537883).epsilon(1e-6));  // as many digits as the number has
  const Tensor triangle = tril(ones({2, 2}, DType::f64));
  check_throws(ErrorKind::dtype, {"bool", "f64 (2, 2)"}, [&] { Mask::keep(triangle); });
  check_throws(ErrorKind::dtype, {"bool", "f64 (2, 2)"}, [&] { Mask::hide(triangle); });
  check_throws(ErrorKind::dtype, {"bool"}, [&] {
    fused_attention(q, k, v, {.hidden = f64({1, 0})});
  });
}

TEST_CASE("ATTN-3: the causal offset of fused attention says which key is the first query's own") {
  const Tensor k = zeros({3, 1}, DType::f64), v = f64({{1}, {2}, {6}});
  const auto attend = [&](std::int64_t queries, std::int64_t offset) {
    return fused_attention(zeros({queries, 1}, DType::f64), k, v, {.causal_offset = offset})
        .to_vector();
  };
  CHECK(attend(1, 2) == Values{3});  // aligned at the end
  CHECK(attend(2, 1) == Values{1.5, 3});
  CHECK(attend(1, 0) == Values{1});  // aligned at the start
  CHECK(attend(2, 0) == Values{1, 1.5});
}

TEST_CASE("ATTN-3: multi-head attention takes no unaligned causal mask over different lengths") {
  const MultiHeadAttention attn = attention_of(1, {{0}, {0}, {1}}, {{1}});
  const Tensor query = zeros({1, 1}, DType::f64), keys = f64({{1}, {2}, {6}});
  const Tape::Pause pause;
  check_throws(ErrorKind::shape, {"1 queries", "3 keys"},
               [&] { attn(query, keys, keys, Mask::causal()); });
  CHECK(attn(query, keys, keys, Mask::causal(Align::bottom_right)).item() == 3);
  CHECK(attn(query, keys, keys, Mask::causal(Align::top_left)).item() == 1);
}

TEST_CASE("ATTN-4: a layer in evaluation mode equals one without dropout and draws no number") {
  const auto layer_with = [](double dropout) {
    Generator generator(3);
    return TransformerEncoderLayer(
        {.d_model = 4, .nhead = 2, .dropout = dropout, .dtype = DType::f64}, generator);
  };
  TransformerEncoderLayer layer = layer_with(0.5);
  const TransformerEncoderLayer without = layer_with(0);
  const Tensor x = noise({2, 3, 4}, 1);
  const Tape::Pause pause;
  layer.eval();
  const RandomState before = default_generator().state();
  const Tensor first = layer(x);
  CHECK(equal(first, layer(x)));
  CHECK(equal(first, without(x)));
  CHECK(default_generator().state() == before);
}

TEST_CASE("ATTN-6: each key head of fused attention serves the query heads next to one another") {
  const Tensor q = zeros({4, 1, 1}, DType::f64), k = zeros({2, 1, 1}, DType::f64);
  const Tensor v = parameter(f64({{{10}}, {{20}}}));
  Tape tape;
  const Tensor y = fused_attention(q, k, v);
  CHECK(y.to_vector() == Values{10, 10, 20, 20});
  CHECK(tape.gradient(y, {v}, ones({4, 1, 1}, DType::f64))[v].to_vector() == Values{2, 2});
}

TEST_CASE("ATTN-7: weights of two heads that look at different keys, as they were before dropout") {
  const NestedList identity = {{1, 0}, {0, 1}};
  MultiHeadAttention attn(
      {.embed_dim = 2, .num_heads = 2, .dropout = 0.5, .bias = false, .dtype = DType::f64});
  attn.load_state_dict({{"in_proj_weight", f64({{1, 0}, {0, 1}, {1, 0}, {0, 1}, {1, 0}, {0, 1}})},
                        {"out_proj.weight", f64(identity)}});
  // The scores differ by 2000, whose exponential is 0 exactly.
  const Tensor query = f64({{1, 1}}), key = f64({{1000, -1000}, {-1000, 1000}}),
               value = f64({{1, 2}, {3, 4}});
  const Tape::Pause pause;
  for (const bool training : {true, false}) {
    attn.train(training);
    CHECK(attn.with_weights(query, key, value).weights.to_vector() == Values{0.5, 0.5});
    const auto per_head = attn.with_weights(query, key, value, {}, HeadWeights::per_head);
    CHECK(per_head.weights.to_vector() == Values{1, 0, 0, 1});
    if (!training) CHECK(per_head.output.to_vector() == Values{1, 4});
  }
}

TEST_CASE(
    "ATTN-8: one key gives its value, and q and k get exactly 0, however many features there are") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool fused : {false, true}) {
      CAPTURE(to_string(dtype));
      CAPTURE(fused);
      const Tensor q = parameter(noise({3, 1, 67}, 1, dtype)),
                   k = parameter(noise({3, 1, 67}, 2, dtype));
      const Tensor v = parameter(noise({3, 1, 67}, 3, dtype)),
                   upstream = noise({3, 1, 67}, 4, dtype);
      Tape tape;
      const Tensor y = fused ? fused_attention(q, k, v) : attention(q, k, v);
      CHECK(equal(y, v));
      const Gradients g = tape.gradient(y, {q, k, v}, upstream);
      CHECK(equal(g[q], zeros_like(q)));
      CHECK(equal(g[k], zeros_like(k)));
      CHECK(equal(g[v], upstream));
    }
  }
}

TEST_CASE("ATTN-9: heads that do not divide are errors where they are given, not a smaller model") {
  check_throws(ErrorKind::value, {"10", "4"},
               [] { TransformerEncoderLayer({.d_model = 10, .nhead = 4}); });
  check_throws(ErrorKind::value, {"10", "4"}, [] {
    nn::Gpt({.vocab_size = 3, .context = 2, .layers = 1, .heads = 4, .dim = 10});
  });
  check_throws(ErrorKind::shape, {"q f32 (3, 1, 2)", "k f32 (2, 1, 2)"}, [] {
    fused_attention(zeros({3, 1, 2}), zeros({2, 1, 2}), zeros({2, 1, 2}));
  });
}
