// Every operation's derivatives against differences, in every shape and layout of the table.
#include "support/operation_run.h"

#include <tapehead/core/gradcheck.h>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

template <class Check>
void check_row(const OperationCase& row, const Variation& variation, Check&& check) {
  const std::vector<Tensor> inputs = make_inputs(row, variation);
  const GradcheckReport report = check(as_function(row, inputs), differentiable(row, inputs));
  CHECK_MESSAGE(report.ok, to_string(report));
}

// Differences mean nothing where two equal elements compete; VIEW-1 compares those.
bool is_smooth(const OperationCase& row, const Variation& variation) {
  return !variation.has_ties(row);
}

// Element by element where the inputs lie row-major; elsewhere along one direction, since VIEW-1
// compares the elements with the row-major ones.
GradcheckOptions options_for(const Variation& variation) {
  return {.fast = !variation.is_contiguous(), .allow_unused = true};
}

}  // namespace

TEST_CASE("first derivatives of every operation agree with differences in every layout") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    if (!is_smooth(row, variation)) return;
    check_row(row, variation, [&](auto f, const std::vector<Tensor>& x) {
      return gradcheck(f, x, options_for(variation));
    });
  });
}

TEST_CASE("second derivatives of every operation agree with differences in every shape") {
  for_each_variation(shape_variations, [](const OperationCase& row, const Variation& variation) {
    for (const Variation& v : {variation, with_mixed_layouts(variation)}) {
      if (!is_smooth(row, v)) continue;
      CAPTURE(describe(row, v));
      check_row(row, v, [&](auto f, const std::vector<Tensor>& x) {
        return gradgradcheck(f, x, options_for(v));
      });
    }
  });
}
