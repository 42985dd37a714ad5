// What the tests of NanGuard share.
#pragma once

#include "values.h"

#include <tapehead/core/nan_guard.h>

#include <optional>
#include <string>
#include <vector>

namespace tapehead::tests {

/// A tensor of one dim, and a leaf of it.
inline Tensor numbers(const std::vector<double>& values, DType dtype = DType::f64) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}, dtype);
}
inline Tensor leaf(const std::vector<double>& values, DType dtype = DType::f64) {
  return parameter(numbers(values, dtype));
}

/// The alarm of f, which goes on after it.
template <class F>
std::optional<NanReport> alarm(F&& f) {
  const NanGuard guard({.raise = false});
  f();
  if (!guard.report()) return {};
  return *guard.report();
}

/// What an alarm that must not be says of itself, for messages.
inline std::string text_of(const std::optional<NanReport>& report) {
  return report ? to_string(*report) : "no alarm";
}

}  // namespace tapehead::tests
