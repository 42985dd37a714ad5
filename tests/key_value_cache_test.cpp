// The key/value cache: decoding step by step against one pass over the whole sequence.
#include "support/attention.h"
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/memory.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/encoder_layer.h>
#include <tapehead/nn/key_value_cache.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/windows.h>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::noise;

namespace {

using Values = std::vector<double>;

MultiHeadAttention make_attention(AttentionPath path = AttentionPath::composed) {
  return tests::make_attention({.embed_dim = 6, .num_heads = 2, .path = path});
}

// Feeds x to `decode` in parts of these lengths and checks each against the same part of `whole`.
// 1e-12 is what is asked of a cache; the two ways sum the same products, in blocks of their own.
template <class Decode>
void check_steps(const Tensor& x, const Tensor& whole, const std::vector<std::int64_t>& lengths,
                 Decode&& decode) {
  std::int64_t at = 0;
  for (const std::int64_t length : lengths) {
    const Tensor y = decode(narrow(x, -2, at, length));
    CHECK(allclose(y, narrow(whole, -2, at, length), 0, 1e-12));
    at += length;
  }
}

const std::vector<std::int64_t> one_by_one{1, 1, 1, 1, 1}, prompt_first{3, 1, 1}, in_parts{2, 0, 3};

}  // namespace

TEST_CASE("CACHE-1 step by step, the mean of what was seen: the own key counts, and all before") {
  // Scores of 0, and values that pass through: q and k are projected to 0, v and the output by 1.
  MultiHeadAttention attn({.embed_dim = 1, .num_heads = 1, .bias = false, .dtype = DType::f64});
  attn.load_state_dict({{"in_proj_weight", tensor({{0}, {0}, {1}}, DType::f64)},
                        {"out_proj.weight", tensor({{1}}, DType::f64)}});
  const Tape::Pause pause;
  const Tensor x = tensor({{1}, {2}, {6}}, DType::f64);
  CHECK(attn(x, Mask::causal()).to_vector() == Values{1, 1.5, 3});
  KeyValueCache cache;
  for (const auto& [t, expected] : {std::pair(0, 1.0), std::pair(1, 1.5), std::pair(2, 3.0)}) {
    CHECK(cache.size() == t);  // the position of the token that comes
    CHECK(attn.decode(narrow(x, 0, t, 1), cache).item() == expected);
  }
}

TEST_CASE("CACHE-1 decoding a layer with positions equals one pass, however the tokens are cut") {
  Generator generator(5);
  TransformerEncoderLayer layer(
      {.d_model = 6, .nhead = 2, .dim_feedforward = 8, .norm_first = true, .dtype = DType::f64},
      generator);
  layer.eval();
  const Tape::Pause pause;
  for (const auto& lengths : {one_by_one, prompt_first, in_parts}) {
    const Tensor tokens = noise({2, 5, 6}, 1), positions = noise({5, 6}, 2);
    const Tensor whole = layer(tokens + positions, Mask::causal());
    KeyValueCache cache;
    check_steps(tokens, whole, lengths, [&](const Tensor& part) {
      const Tensor here = narrow(positions, 0, cache.size(), part.size(1));
      return layer.decode(part + here, cache);
    });
    CHECK(cache.size() == 5);
  }
}

TEST_CASE("decoding equals one pass on the fused path, with padding, and without a batch") {
  const Tape::Pause pause;
  const Tensor padding = tensor({{0, 0, 0, 0, 0}, {1, 1, 0, 0, 0}}, DType::boolean);
  const Tensor x = noise({2, 5, 6}, 1), single = noise({5, 6}, 2);
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    const MultiHeadAttention attn = make_attention(path);
    KeyValueCache cache, cache_of_single;
    const Tensor whole = attn(x, Mask::causal() & Mask::padding(padding));
    check_steps(x, whole, prompt_first, [&](const Tensor& part) {
      const std::int64_t seen = cache.size() + part.size(1);
      return attn.decode(part, cache, Mask::padding(narrow(padding, 1, 0, seen)));
    });
    check_steps(single, attn(single, Mask::causal()), one_by_one,
                [&](const Tensor& part) { return attn.decode(part, cache_of_single); });
  }
}

TEST_CASE("a truncated cache goes on from where it was cut, and from 0 takes any shape") {
  const Tape::Pause pause;
  const MultiHeadAttention attn = make_attention();
  const Tensor x = noise({1, 4, 6}, 1), other = noise({1, 4, 6}, 2);
  const Tensor whole = attn(x, Mask::causal());
  KeyValueCache cache;
  attn.decode(narrow(x, 1, 0, 2), cache);
  attn.decode(narrow(other, 1, 0, 2), cache);
  cache.truncate(2);
  CHECK(cache.size() == 2);
  CHECK(allclose(attn.decode(narrow(x, 1, 2, 2), cache), narrow(whole, 1, 2, 2), 0, 1e-12));
  cache.truncate(0);
  const Tensor three = noise({3, 2, 6}, 3);
  CHECK(allclose(attn.decode(three, cache), attn(three, Mask::causal()), 0, 1e-12));
  check_throws(ErrorKind::index, {"5 of 2"}, [&] { cache.truncate(5); });
  check_throws(ErrorKind::index, {"-1"}, [&] { cache.truncate(-1); });
}

TEST_CASE("room is doubled: what a cache copies in all is proportional to what it holds") {
  const Tape::Pause pause;
  const Tensor token = ones({1, 1, 1, 1}, DType::f64);
  KeyValueCache cache;
  const std::int64_t before = memory_stats().live;
  for (int i = 0; i < 65; ++i) cache.append(token, token);
  // Room for 1, 2, 4, ..., 128 positions; of two numbers each.
  CHECK(memory_stats().live - before == 128 * 2 * 8);
}

TEST_CASE("what does not continue a cache is an error, and leaves it as it was") {
  KeyValueCache cache;
  const auto rejects = [&](ErrorKind kind, const char* text, const Tensor& keys,
                           const Tensor& values) {
    const std::int64_t size = cache.size();
    check_throws(kind, {"KeyValueCache", text}, [&] { cache.append(keys, values); });
    CHECK(cache.size() == size);
  };
  const Tensor keys = noise({2, 2, 3, 4}, 1), values = noise({2, 2, 3, 5}, 2);
  rejects(ErrorKind::shape, "(2, 3, 4)", select(keys, 0, 0), select(values, 0, 0));
  rejects(ErrorKind::shape, "(2, 2, 2, 5)", keys, narrow(values, 2, 0, 2));
  rejects(ErrorKind::dtype, "f32", keys, noise({2, 2, 3, 5}, 2, DType::f32));
  cache.append(keys, values);
  rejects(ErrorKind::shape, "(2, 2, 3, 4)", noise({2, 2, 3, 3}, 1), values);
  rejects(ErrorKind::shape, "values", keys, keys);
  rejects(ErrorKind::dtype, "f64", noise({2, 2, 3, 4}, 1, DType::f32),
          noise({2, 2, 3, 5}, 2, DType::f32));
  const Tape tape;
  rejects(ErrorKind::state, "Tape::Pause", keys, values);
}

TEST_CASE("a copy of a cache has a buffer of its own, so that sequences branch") {
  const auto number = [](double value) { return full({1, 1, 1, 1}, value); };
  KeyValueCache trunk;
  for (int i = 0; i < 3; ++i) trunk.append(number(1), number(1));  // with room for a fourth
  KeyValueCache left = trunk, right;
  right = trunk;
  const Tensor of_left = left.append(number(2), number(-2)).keys;
  const Tensor of_right = right.append(number(3), number(-3)).values;
  const Tensor of_trunk = trunk.append(number(4), number(-4)).keys;
  CHECK(of_left.to_vector() == Values{1, 1, 1, 2});
  CHECK(of_right.to_vector() == Values{1, 1, 1, -3});
  CHECK(of_trunk.to_vector() == Values{1, 1, 1, 4});
  const KeyValueCache empty = KeyValueCache(KeyValueCache());
  CHECK(empty.size() == 0);
}
