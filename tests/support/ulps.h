// How far float32 results are from the exact ones.
#pragma once

#include <tapehead/core/tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tapehead::tests {

/// The largest error of a float32 tensor against the float64 result, in units in the last place of
/// each element.
inline double largest_error_in_ulps(const Tensor& got, const Tensor& exact) {
  const std::vector<double> g = got.to_vector(), e = exact.to_vector();
  double largest = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float size = std::abs(static_cast<float>(e[i]));
    const float next = std::nextafter(size, std::numeric_limits<float>::infinity());
    largest = std::max(largest, std::abs(g[i] - e[i]) / static_cast<double>(next - size));
  }
  return largest;
}

}  // namespace tapehead::tests
