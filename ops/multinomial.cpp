#include <tapehead/core/dry_run.h>
#include <tapehead/ops/kernels/random.h>
#include <tapehead/ops/multinomial.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

namespace tapehead {
namespace {

using Row = std::span<const double>;

// Reads the uniforms of one call: uniform n takes words 2n and 2n + 1.
double uniform_at(RandomState state, std::uint64_t n) {
  const std::uint64_t word = state.offset + 2 * n;
  return kernels::unit53(random_bits(state.key, word), random_bits(state.key, word + 1));
}

void check_row(Row row, std::int64_t num_samples, bool replacement) {
  std::int64_t positive = 0;
  for (const double p : row) {
    if (!(p >= 0) || std::isinf(p))
      throw ValueError("multinomial", "a probability is " + format_number(p) +
                                          ": it must be finite and not negative");
    positive += p > 0;
  }
  const std::int64_t needed = replacement ? std::min<std::int64_t>(num_samples, 1) : num_samples;
  if (positive < needed)
    throw ValueError("multinomial", "a row of " + std::to_string(row.size()) +
                                        " probabilities has " + std::to_string(positive) +
                                        " positive ones, and " + std::to_string(num_samples) +
                                        " samples are to be drawn " +
                                        (replacement ? "with" : "without") + " replacement");
}

// Where a uniform number falls among the running sums.
void draw_with_replacement(Row row, std::span<std::int64_t> samples, RandomState state,
                           std::uint64_t first) {
  if (samples.empty()) return;
  std::vector<double> sums(row.size());
  std::partial_sum(row.begin(), row.end(), sums.begin());
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const double target = uniform_at(state, first + k) * sums.back();
    // By rounding the target may be the total itself, which lies past the last positive one.
    const auto found = target < sums.back() ? std::upper_bound(sums.begin(), sums.end(), target)
                                            : std::lower_bound(sums.begin(), sums.end(), target);
    samples[k] = found - sums.begin();
  }
}

// Each position waits for an exponential time with its probability as the rate; the first to come
// are drawn, in the order in which they come.
void draw_without_replacement(Row row, std::span<std::int64_t> samples, RandomState state,
                              std::uint64_t first) {
  std::vector<double> times(row.size());
  for (std::size_t i = 0; i < row.size(); ++i)
    times[i] = row[i] > 0 ? -std::log1p(-uniform_at(state, first + i)) / row[i] : HUGE_VAL;
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto earlier = [&](std::int64_t a, std::int64_t b) {
    const double ta = times[static_cast<std::size_t>(a)], tb = times[static_cast<std::size_t>(b)];
    return ta != tb ? ta < tb : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(samples.size());
  std::partial_sort(order.begin(), end, order.end(), earlier);
  std::copy(order.begin(), end, samples.begin());
}

// Only ratios count: times a power of two that brings the largest to [1/2, 1), so that sums of huge
// numbers stay finite and quotients of tiny ones too.
void scale_to_one(std::span<double> row) {
  int exponent = 0;
  std::frexp(*std::max_element(row.begin(), row.end()), &exponent);
  for (double& p : row) p = std::ldexp(p, -exponent);
}

void draw(const Tensor& probabilities, const Tensor& y, bool replacement, RandomState state) {
  std::vector<double> values = probabilities.to_vector<double>();
  const std::int64_t num_samples = y.shape().back(), rows = y.rank() == 2 ? y.shape()[0] : 1;
  const auto n = static_cast<std::size_t>(probabilities.shape().back());
  const auto row = [&](std::int64_t r) {
    return std::span(values).subspan(static_cast<std::size_t>(r) * n, n);
  };
  for (std::int64_t r = 0; r < rows; ++r) check_row(row(r), num_samples, replacement);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::span samples(y.view().as<std::int64_t>() + r * num_samples,
                            static_cast<std::size_t>(num_samples));
    if (n > 0) scale_to_one(row(r));
    const std::uint64_t first = static_cast<std::uint64_t>(r) * (replacement ? samples.size() : n);
    (replacement ? draw_with_replacement : draw_without_replacement)(row(r), samples, state, first);
  }
}

}  // namespace

Tensor multinomial(const Tensor& probabilities, std::int64_t num_samples, bool replacement,
                   Generator& generator) {
  check_floating("multinomial", "probabilities", probabilities);
  if (probabilities.rank() != 1 && probabilities.rank() != 2)
    throw ShapeError("multinomial",
                     "probabilities " + describe(probabilities) + " must have one or two dims");
  if (num_samples < 0 || (!replacement && num_samples > probabilities.shape().back()))
    throw ValueError("multinomial", std::to_string(num_samples) + " samples cannot be drawn from " +
                                        describe(probabilities) +
                                        (replacement ? "" : " without replacement"));
  Shape shape = probabilities.shape();
  shape[shape.rank() - 1] = num_samples;
  Tensor y = empty("multinomial", shape, DType::i64);
  const std::int64_t uniforms = replacement ? y.numel() : probabilities.numel();
  const RandomState state = generator.take(2 * static_cast<std::uint64_t>(uniforms));
  launch([&] { draw(probabilities, y, replacement, state); });
  return y;
}

}  // namespace tapehead
