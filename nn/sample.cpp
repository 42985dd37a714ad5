#include <tapehead/core/error.h>
#include <tapehead/nn/check.h>
#include <tapehead/nn/sample.h>
#include <tapehead/ops/kernels/random.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tapehead::nn {
namespace {

// Uniform in [0, 1) with 53 random bits.
double draw(Generator& generator) {
  const RandomState at = generator.take(2);
  return kernels::unit53(random_bits(at.key, at.offset), random_bits(at.key, at.offset + 1));
}

// All token ids, the `count` most likely ones first and in order.
std::vector<std::int64_t> most_likely_first(std::span<const double> logits, std::size_t count) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const auto logit = [&](std::int64_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
                    });
  return ids;
}

}  // namespace

void check(const SampleOptions& options) {
  check_not_negative("sample", "temperature", options.temperature);
  if (options.top_k) check_positive("sample", "top_k", *options.top_k);
}

std::int64_t sample(std::span<const double> logits, const SampleOptions& options,
                    Generator& generator) {
  check(options);
  if (logits.empty()) throw ValueError("sample", "no logits to choose from");
  if (std::any_of(logits.begin(), logits.end(), [](double logit) { return std::isnan(logit); }))
    throw ValueError("sample", "a logit is NaN");
  const bool greedy = options.temperature == 0;
  const auto limit = static_cast<std::int64_t>(logits.size());
  const std::int64_t kept = greedy ? 1 : std::min(options.top_k.value_or(limit), limit);
  std::vector<std::int64_t> ids = most_likely_first(logits, static_cast<std::size_t>(kept));
  if (greedy) return ids.front();

  ids.resize(static_cast<std::size_t>(kept));
  const double top = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> running(ids.size());
  double total = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double logit = logits[static_cast<std::size_t>(ids[i])];
    // Equal logits, infinite ones among them, are equally likely.
    total += logit == top ? 1 : std::exp((logit - top) / options.temperature);
    running[i] = total;
  }
  const auto chosen = std::upper_bound(running.begin(), running.end(), draw(generator) * total);
  return chosen == running.end() ? ids.back()
                                 : ids[static_cast<std::size_t>(chosen - running.begin())];
}

}  // namespace tapehead::nn
