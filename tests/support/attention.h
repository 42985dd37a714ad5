// What tests of attention share.
#pragma once

#include <tapehead/nn/multi_head_attention.h>

namespace tapehead::tests {

inline constexpr nn::AttentionPath both_paths[] = {nn::AttentionPath::composed,
                                                   nn::AttentionPath::fused};

/// Two orders of summing a few products of f64.
inline constexpr double few_roundings = 1e-13;

/// In f64, with the same parameters each time.
inline nn::MultiHeadAttention make_attention(nn::MultiHeadAttentionOptions options) {
  Generator generator(11);
  options.dtype = DType::f64;
  return nn::MultiHeadAttention(options, generator);
}

}  // namespace tapehead::tests
