// Gradients by rule against difference quotients.
#pragma once

#include <tapehead/core/gradcheck.h>

#include <doctest/doctest.h>

#include <vector>

namespace tapehead::tests {

/// Fails, with what gradcheck says, unless the first derivatives of f are right.
template <class F>
void check_first_order(const F& f, const std::vector<Tensor>& inputs,
                       const GradcheckOptions& options = {}) {
  const GradcheckReport report = gradcheck(f, inputs, options);
  CHECK_MESSAGE(report.ok, to_string(report));
}

/// The same of the second derivatives.
template <class F>
void check_second_order(const F& f, const std::vector<Tensor>& inputs,
                        const GradcheckOptions& options = {}) {
  const GradcheckReport report = gradgradcheck(f, inputs, options);
  CHECK_MESSAGE(report.ok, to_string(report));
}

}  // namespace tapehead::tests
