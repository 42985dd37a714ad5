#include "draws.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
    if (!(value <= most)) most = value;
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

}  // namespace

std::vector<Draws> draw(int repeats, const Experiment& experiment) {
  std::vector<Draws> all;
  for (const std::vector<double>& values : values_of(experiment, 0)) {
    const double m = median(values);
    all.push_back({.median = m, .largest = largest(values), .low = m, .high = m});
  }
  for (int repeat = 1; repeat < repeats; ++repeat) {
    const auto values = values_of(experiment, repeat * seeds);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double m = median(values[i]);
      all[i].low = std::min(all[i].low, m);
      all[i].high = std::max(all[i].high, m);
    }
  }
  return all;
}

Bound spread(const Draws& draws) { return spread(draws.low, draws.high); }

}  // namespace tapehead::program::lecture
