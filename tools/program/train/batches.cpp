#include "batches.h"

#include <tapehead/core/random.h>

namespace tapehead::program {
namespace {

// Another stream than the one of the same seed from which the weights are drawn.
constexpr std::uint64_t batch_stream = 0x6261746368657321u;

// Uniform in [0, count), up to a bias of count / 2^64.
std::int64_t draw(std::uint64_t key, std::uint64_t n, std::int64_t count) {
  const std::array<std::uint32_t, 4> words = philox(key, n);
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(count));
}

}  // namespace

Batch windows(std::span<const Token> text, std::span<const std::int64_t> starts,
              std::int64_t length) {
  std::vector<std::int64_t> inputs, targets;
  inputs.reserve(starts.size() * static_cast<std::size_t>(length));
  targets.reserve(inputs.capacity());
  for (const std::int64_t start : starts) {
    const auto window =
        text.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(length) + 1);
    inputs.insert(inputs.end(), window.begin(), window.end() - 1);
    targets.insert(targets.end(), window.begin() + 1, window.end());
  }
  const Shape shape{static_cast<std::int64_t>(starts.size()), length};
  return {from_vector(inputs, shape), from_vector(targets, shape)};
}

Batch RandomBatches::at(std::int64_t step) const {
  const std::int64_t positions = static_cast<std::int64_t>(text_.size()) - length_;
  const std::int64_t first = (step * share_.ranks + share_.rank) * batch_;
  std::vector<std::int64_t> starts;
  for (std::int64_t row = 0; row < batch_; ++row) {
    const auto n = static_cast<std::uint64_t>(first + row);
    starts.push_back(draw(seed_ ^ batch_stream, n, positions));
  }
  return windows(text_, starts, length_);
}

}  // namespace tapehead::program
