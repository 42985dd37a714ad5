// What the tests of NanGuard share.
#pragma once

#include "tensors.h"
#include "values.h"

#include <tapehead/core/nan_guard.h>

#include <optional>
#include <string>
#include <vector>

namespace tapehead::tests {

/// A leaf of one dim.
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
