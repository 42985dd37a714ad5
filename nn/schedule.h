// Learning rates as functions of the step.
#pragma once

#include <cstdint>
#include <numbers>

#include <cmath>

namespace tapehead::nn {

/// Linear from 0 to `peak` over the first `warmup` steps, then half a cosine down to `floor` at
/// step `total`, and `floor` after that. Steps count from 0; step 0 of a warm-up is not lost: it
/// has peak / warmup.
struct CosineSchedule {
  double peak = 0;          ///< the highest
  double floor = 0;         ///< the last
  std::int64_t warmup = 0;  ///< steps
  std::int64_t total = 0;   ///< steps, warm-up included

  /// The learning rate of a step.
  double operator()(std::int64_t step) const {
    if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
    if (step >= total) return floor;
    const double progress =
        static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
    return floor + (peak - floor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
};

}  // namespace tapehead::nn
