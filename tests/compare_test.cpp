// What the table of operations does not hold: comparisons and tests have no gradient.
#include "support/values.h"

#include <tapehead/ops/compare.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace tapehead;
using tests::infinity;

TEST_CASE("isnan and isfinite tell NaN, infinities and numbers apart, in any layout") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = tensor({{NAN, 1, -infinity}, {0, -NAN, infinity}}, dtype);
    const Tensor nan = tensor({{1, 0, 0}, {0, 1, 0}}, DType::boolean);
    const Tensor finite = tensor({{0, 1, 0}, {1, 0, 0}}, DType::boolean);
    CHECK(equal(isnan(x), nan));
    CHECK(equal(isfinite(x), finite));
    CHECK(equal(isnan(transpose(x, 0, 1)), transpose(nan, 0, 1)));
    CHECK(equal(isfinite(narrow(x, 1, 1, 2)), narrow(finite, 1, 1, 2)));
  }
}
