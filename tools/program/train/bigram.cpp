#include "bigram.h"

#include <cmath>

namespace tapehead::program {
namespace {

std::uint64_t pair_key(Token a, Token b) {
  return std::uint64_t{static_cast<std::uint32_t>(a)} << 32 | static_cast<std::uint32_t>(b);
}

}  // namespace

Bigram::Bigram(std::span<const Token> text, std::int64_t vocabulary_size) {
  const auto size = static_cast<std::size_t>(vocabulary_size);
  std::vector<std::int64_t> counts(size, 0);
  followers_.assign(size, 0);
  kinds_.assign(size, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    ++counts[static_cast<std::size_t>(text[i])];
    if (i == 0) continue;
    const auto before = static_cast<std::size_t>(text[i - 1]);
    ++followers_[before];
    if (++pairs_[pair_key(text[i - 1], text[i])] == 1) ++kinds_[before];
  }
  const auto total = static_cast<double>(text.size() + size);
  for (const std::int64_t count : counts)
    single_.push_back((static_cast<double>(count) + 1) / total);
}

double Bigram::probability(Token a, Token b) const {
  const double unseen = single_[static_cast<std::size_t>(b)];
  const auto followers = static_cast<double>(followers_[static_cast<std::size_t>(a)]);
  const auto kinds = static_cast<double>(kinds_[static_cast<std::size_t>(a)]);
  if (followers == 0) return unseen;
  const auto found = pairs_.find(pair_key(a, b));
  const double count = found == pairs_.end() ? 0 : static_cast<double>(found->second);
  return (count + kinds * unseen) / (followers + kinds);
}

double Bigram::loss(std::span<const Token> text) const {
  double sum = 0;
  for (std::size_t i = 1; i < text.size(); ++i) sum -= std::log(probability(text[i - 1], text[i]));
  return sum / static_cast<double>(text.size() - 1);
}

}  // namespace tapehead::program
