// Causal self-attention: the module with its projections, and attention alone on a long sequence.
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>

#include <memory>

#include "agreement.h"
#include "scenario.h"

namespace tapehead::program::bench {
namespace {

using nn::AttentionPath;
using nn::MultiHeadAttention;

struct Sizes {
  std::int64_t batch, time, dim, heads;
};
constexpr Sizes sizes_a{8, 128, 512, 8}, sizes_b{4, 512, 512, 8}, sizes_c{1, 2048, 512, 8};

std::vector<Tensor> attend(const MultiHeadAttention& attention, const Tensor& x,
                           const Tensor& seed) {
  std::vector<Tensor> leaves = attention.parameters();
  leaves.push_back(x);
  return forward_backward([&] { return attention(x, nn::Mask::causal()); }, leaves, seed);
}

double module_error(const MultiHeadAttention& attention, const Tensor& x, const Tensor& seed) {
  nn::MultiHeadAttentionOptions options = attention.options();
  options.path = AttentionPath::composed;
  options.dtype = DType::f64;
  MultiHeadAttention reference(options);
  copy_values(attention, reference);
  return largest_error(attend(attention, x, seed),
                       attend(reference, reference_leaf(x), to(seed, DType::f64)));
}

Subject module(const Sizes& sizes, AttentionPath path) {
  Generator generator(1);
  const auto attention = std::make_shared<MultiHeadAttention>(
      nn::MultiHeadAttentionOptions{.embed_dim = sizes.dim, .num_heads = sizes.heads, .path = path},
      generator);
  const Shape shape{sizes.batch, sizes.time, sizes.dim};
  const Tensor x = parameter(randn(shape, DType::f32, generator));
  const Tensor seed = randn(shape, DType::f32, generator);
  const auto forward = [&] { return (*attention)(x, nn::Mask::causal()); };
  return {.iterate = [=] { attend(*attention, x, seed); },
          .work = {product_flops(forward), "flops"},
          .saved_bytes = saved_bytes(forward),
          .error = [=] { return module_error(*attention, x, seed); }};
}

std::vector<Tensor> attend(const std::vector<Tensor>& qkv, const Tensor& seed, AttentionPath path) {
  return forward_backward(
      [&] {
        return nn::attention(qkv[0], qkv[1], qkv[2], {.mask = nn::Mask::causal(), .path = path});
      },
      qkv, seed);
}

Subject long_sequence(AttentionPath path) {
  Generator generator(1);
  const Shape shape{1, 8, 4096, 64};
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) qkv.push_back(parameter(randn(shape, DType::f32, generator)));
  const Tensor seed = randn(shape, DType::f32, generator);
  const auto forward = [&] {
    return nn::attention(qkv[0], qkv[1], qkv[2], {.mask = nn::Mask::causal(), .path = path});
  };
  return {.iterate = [=] { attend(qkv, seed, path); },
          .work = {product_flops(forward), "flops"},
          .saved_bytes = saved_bytes(forward),
          .error =
              [=] {
                std::vector<Tensor> reference;
                for (const Tensor& x : qkv) reference.push_back(reference_leaf(x));
                return largest_error(
                    attend(qkv, seed, path),
                    attend(reference, to(seed, DType::f64), AttentionPath::composed));
              }};
}

}  // namespace

std::vector<Scenario> attention_scenarios() {
  constexpr auto composed = AttentionPath::composed, fused = AttentionPath::fused;
  return {
      {"mha_a", "MultiHeadAttention composed, causal, batch 8, time 128, dim 512, 8 heads",
       [] { return module(sizes_a, composed); }},
      {"mha_b", "the same with batch 4, time 512", [] { return module(sizes_b, composed); }},
      {"mha_c", "the same with batch 1, time 2048", [] { return module(sizes_c, composed); }},
      {"mha_a_fused", "mha_a with fused attention", [] { return module(sizes_a, fused); }},
      {"mha_b_fused", "mha_b with fused attention", [] { return module(sizes_b, fused); }},
      {"mha_c_fused", "mha_c with fused attention", [] { return module(sizes_c, fused); }},
      {"longattn", "causal attention alone, composed, time 4096, 8 heads of 64",
       [] { return long_sequence(composed); }},
      {"longattn_fused", "the same fused", [] { return long_sequence(fused); }},
  };
}

}  // namespace tapehead::program::bench
