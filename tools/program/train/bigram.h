// The bigram model: each character predicted from the one before it. The mark that a language model
// has to beat.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "corpus.h"

namespace tapehead::program {

/// Counts of pairs with Witten and Bell's smoothing ("The zero-frequency problem", IEEE
/// Transactions on Information Theory 37, 1991): with c(ab) how often b follows a, c(a) how often
/// anything does, and k(a) how many different characters do,
///     p(b | a) = (c(ab) + k(a) p(b)) / (c(a) + k(a)),   p(b) = (c(b) + 1) / (n + V).
class Bigram {
 public:
  Bigram(std::span<const Token> text, std::int64_t vocabulary_size);

  /// Mean of -log p over all characters of `text` but the first, in nats; there are at least two.
  double loss(std::span<const Token> text) const;

 private:
  double probability(Token a, Token b) const;

  std::vector<double> single_;           // p(b)
  std::vector<std::int64_t> followers_;  // c(a)
  std::vector<std::int64_t> kinds_;      // k(a)
  std::unordered_map<std::uint64_t, std::int64_t> pairs_;
};

}  // namespace tapehead::program
