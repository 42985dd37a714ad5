// Figures that depend on random draws: the lecture does not give its own, so ours are medians over
// 20 seeds, and how far such medians lie apart is found by repeating them with other seeds.
#pragma once

#include "check.h"

#include <tapehead/core/random.h>

#include <functional>
#include <vector>

namespace tapehead::program::lecture {

constexpr int seeds = 20;

/// What one draw measures: some figures, always as many.
using Experiment = std::function<std::vector<double>(Generator&)>;

struct Draws {
  double median = 0;               ///< over the first 20 seeds
  double largest = 0;              ///< of the first 20 seeds; NaN if there is one
  double mean = 0, deviation = 0;  ///< of the medians of all repeats
};

/// Draws `repeats` times 20 seeds, at least 2 times: one entry for each figure of the experiment.
std::vector<Draws> draw(int repeats, const Experiment& experiment);
/// 20 seeds only, for figures that need no spread.
std::vector<Draws> draw(const Experiment& experiment);

/// Three standard deviations of such medians to either side of their mean. The lecture quotes some
/// thirty figures that were drawn: beyond three deviations lies one in 370, whereas the range of 20
/// repeats would be left by one in ten.
Bound spread(const Draws& draws);

}  // namespace tapehead::program::lecture
