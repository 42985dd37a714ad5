// Section 5.4: what generating T tokens costs, with and without a cache of keys and values.
#include "claims_about_decoding.h"

#include "formulas.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/windows.h>

namespace tapehead::program::lecture {

namespace {

constexpr std::int64_t decoded_tokens = 32, width = 16, decoding_heads = 4;

// One step with a cache as MultiHeadAttention::decode takes it, on a tape, which decode() refuses.
Tensor decode_step(const nn::MultiHeadAttention& attention, const Tensor& token,
                   nn::KeyValueCache& cache) {
  const auto heads_of = [&](Part part) {
    return nn::split_heads(project(attention, token, part), decoding_heads);
  };
  const Tensor q = heads_of(query);
  const Tensor k = heads_of(key);
  const Tensor v = heads_of(value);
  nn::KeyValueCache::Seen seen;
  {
    const Tape::Pause no_gradient_flows_through_a_cache;
    seen = cache.append(k, v);
  }
  return attention.out_proj(nn::merge_heads(nn::attention(q, seen.keys, seen.values)));
}

struct Decoded {
  Tensor last;                          // the last token's output
  std::int64_t last_step = 0, all = 0;  // floating-point operations of products
  void count(std::int64_t flops) {
    last_step = flops;
    all += flops;
  }
};

Decoded without_cache(const nn::MultiHeadAttention& attention, const Tensor& x) {
  Decoded decoded;
  for (std::int64_t t = 1; t <= x.size(1); ++t) {
    Tape tape;
    const Tensor y = attention(narrow(x, 1, 0, t), nn::Mask::causal());
    decoded.count(tape.flops());
    decoded.last = narrow(y, 1, t - 1, 1).detach();
  }
  return decoded;
}

Decoded with_cache(const nn::MultiHeadAttention& attention, const Tensor& x) {
  Decoded decoded;
  nn::KeyValueCache cache;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    Tape tape;
    decoded.last = decode_step(attention, narrow(x, 1, t, 1), cache).detach();
    decoded.count(tape.flops());
  }
  return decoded;
}

// Decoding's own result for the last token, without counting.
Tensor decoded_by_the_module(const nn::MultiHeadAttention& attention, const Tensor& x) {
  const Tape::Pause inference;
  nn::KeyValueCache cache;
  Tensor y;
  for (std::int64_t t = 0; t < x.size(1); ++t) y = attention.decode(narrow(x, 1, t, 1), cache);
  return y;
}

}  // namespace

void claims_about_decoding(Group& group, Generator& generator) {
  constexpr std::int64_t n = decoded_tokens, d = width;
  const nn::MultiHeadAttention attention(
      {.embed_dim = d, .num_heads = decoding_heads, .dtype = f64}, generator);
  const Tensor x = randn({1, n, d}, f64, generator);
  const Decoded naive = without_cache(attention, x), cached = with_cache(attention, x);
  const auto counted = [&](const char* name, const char* formula, std::int64_t flops,
                           std::int64_t expected) {
    group.add(name, formula, static_cast<double>(flops), exactly(static_cast<double>(expected)));
  };
  counted("5.4 no cache, step 32: 8td^2 + 4t^2d", "O(td^2+t^2d)", naive.last_step,
          8 * n * d * d + 4 * n * n * d);
  counted("5.4 cache, step 32: 8d^2 + 4td", "O(d^2+td)", cached.last_step, 8 * d * d + 4 * n * d);
  std::int64_t all_naive = 0, all_cached = 0;
  for (std::int64_t t = 1; t <= n; ++t) {
    all_naive += 8 * t * d * d + 4 * t * t * d;
    all_cached += 8 * d * d + 4 * t * d;
  }
  counted("5.4 no cache, steps 1 to 32", "T^2d^2+T^3d", naive.all, all_naive);
  counted("5.4 cache, steps 1 to 32", "Td^2+T^2d", cached.all, all_cached);
  group.add("5.4 the two outputs at step 32", "equal", relative_difference(cached.last, naive.last),
            at_most(1e-14));
  group.add("5.4 the counted step against decode()", "equal",
            relative_difference(cached.last, decoded_by_the_module(attention, x)), exactly(0));
}

}  // namespace tapehead::program::lecture
