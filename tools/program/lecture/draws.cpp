#include "draws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tapehead::program::lecture {

namespace {

// The usual median of an even number: the mean of the two in the middle. NaN if there is one.
double median(std::vector<double> values) {
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return (values[middle - 1] + values[middle]) / 2;
}

double largest(const std::vector<double>& values) {
  double most = values.front();
  for (const double value : values)
    if (value > most || std::isnan(value)) most = value;  // a NaN stays: nothing is above it
  return most;
}

// For each figure, its values over 20 seeds from `first` on.
std::vector<std::vector<double>> values_of(const Experiment& experiment, int first) {
  std::vector<std::vector<double>> values;
  for (int seed = first; seed < first + seeds; ++seed) {
    Generator generator(static_cast<std::uint64_t>(seed));
    const std::vector<double> figures = experiment(generator);
    values.resize(figures.size());
    for (std::size_t i = 0; i < figures.size(); ++i) values[i].push_back(figures[i]);
  }
  return values;
}

// Mean and standard deviation of the medians, one a repeat.
void measure_spread(const std::vector<double>& medians, Draws& draws) {
  const auto count = static_cast<double>(medians.size());
  draws.mean = std::accumulate(medians.begin(), medians.end(), 0.0) / count;
  double squares = 0;
  for (const double m : medians) squares += (m - draws.mean) * (m - draws.mean);
  draws.deviation = std::sqrt(squares / (count - 1));
}

}  // namespace

std::vector<Draws> draw(const Experiment& experiment) {
  std::vector<Draws> all;
  for (const std::vector<double>& values : values_of(experiment, 0))
    all.push_back({.median = median(values), .largest = largest(values)});
  return all;
}

std::vector<Draws> draw(int repeats, const Experiment& experiment) {
  std::vector<Draws> all = draw(experiment);
  std::vector<std::vector<double>> medians(all.size());  // of each figure
  for (std::size_t i = 0; i < all.size(); ++i) medians[i] = {all[i].median};
  for (int repeat = 1; repeat < repeats; ++repeat) {
    const auto values = values_of(experiment, repeat * seeds);
    for (std::size_t i = 0; i < values.size(); ++i) medians[i].push_back(median(values[i]));
  }
  for (std::size_t i = 0; i < all.size(); ++i) measure_spread(medians[i], all[i]);
  return all;
}

Bound spread(const Draws& draws) {
  const double reach = 3 * draws.deviation;
  return spread(draws.mean - reach, draws.mean + reach);
}

}  // namespace tapehead::program::lecture
