// Which stretches of the text a step learns from.
#pragma once

#include <tapehead/core/tensor.h>

#include <span>

#include "corpus.h"

namespace tapehead::program {

/// Token sequences and, for each position, the token that follows it: both i64 (batch, time).
struct Batch {
  Tensor inputs;
  Tensor targets;
};

/// The windows of `length` tokens that start at these positions of `text`. Each needs length + 1.
Batch windows(std::span<const Token> text, std::span<const std::int64_t> starts,
              std::int64_t length);

/// The batches of one rank of several, each of which has rows of its own.
struct Share {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
};

/// Windows drawn at random. A batch is a function of seed and step alone, so a run that was stopped
/// goes on with the batches that it would have seen. Those of all ranks, one after the other, are
/// the batch of a single one that is so many times as large.
class RandomBatches {
 public:
  /// `text` has more than `length` tokens and outlives this.
  RandomBatches(std::span<const Token> text, std::int64_t batch, std::int64_t length,
                std::uint64_t seed, Share share = {})
      : text_(text), batch_(batch), length_(length), seed_(seed), share_(share) {}

  Batch at(std::int64_t step) const;

 private:
  std::span<const Token> text_;
  std::int64_t batch_;
  std::int64_t length_;
  std::uint64_t seed_;
  Share share_;
};

}  // namespace tapehead::program
