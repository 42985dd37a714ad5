// Choosing a token from a language model's logits.
#pragma once

#include <tapehead/core/random.h>

#include <cstdint>
#include <optional>
#include <span>

namespace tapehead::nn {

/// How sample() chooses.
struct SampleOptions {
  double temperature = 1;                  ///< 0: the most likely token, and nothing is drawn
  std::optional<std::int64_t> top_k = {};  ///< only the k most likely tokens (ties: the lower id)
};

/// ValueError: temperature negative or not finite, or top_k below 1.
void check(const SampleOptions& options);

/// An index drawn with probability softmax(logits / temperature). ValueError: no logits, or one of
/// them is NaN.
std::int64_t sample(std::span<const double> logits, const SampleOptions& options,
                    Generator& generator);

}  // namespace tapehead::nn
