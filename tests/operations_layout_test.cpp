// What must not matter to the numbers of an operation: layout, threads, who owns the operands, and,
// up to rounding, the dtype.
#include "support/operation_run.h"

#include <tapehead/core/arithmetic.h>
#include <tapehead/core/parallel.h>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// The same values row-major, the differentiable ones as leaves.
std::vector<Tensor> contiguous_leaves(const OperationCase& row, const Variation& variation) {
  std::vector<Tensor> inputs = make_inputs(row, variation);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = copied("test", inputs[i]);
    if (row.inputs()[i].is_differentiable()) inputs[i] = parameter(std::move(inputs[i]));
  }
  return inputs;
}

std::vector<Variation> in_dtype(std::vector<Variation> variations, DType dtype) {
  for (Variation& v : variations) v.dtype = dtype;
  return variations;
}

}  // namespace

TEST_CASE(
    "VIEW-1 every operation gives for strided operands and upstream gradients what it gives "
    "for row-major copies") {
  // Sums may be taken in another order: a few roundings.
  for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-14}, std::pair{DType::f32, 1e-6}})
    for_each_variation(
        [dtype = dtype](const OperationCase& row) {
          return in_dtype(layout_variations(row), dtype);
        },
        [tolerance = tolerance](const OperationCase& row, const Variation& variation) {
          const Numbers right = run_row(row, contiguous_leaves(row, variation));
          check_close(run_row(row, make_leaves(row, variation)), right, tolerance);
          check_close(run_row(row, make_leaves(row, variation), Layout::transposed), right,
                      tolerance);
          check_close(run_row(row, make_leaves(row, variation), Layout::sliced), right, tolerance);
          const Numbers spread = run_row(row, make_leaves(row, variation), Layout::expanded);
          check_close(run_row(row, contiguous_leaves(row, variation), Layout::expanded), spread,
                      tolerance);
        });
}

TEST_CASE("every operation gives in f32 what it gives in f64 for the same numbers") {
  for_each_variation(shape_variations, [](const OperationCase& row, Variation variation) {
    variation.dtype = DType::f32;
    std::vector<Tensor> wide;
    for (Tensor& input : make_inputs(row, variation)) {
      const bool floating = is_floating(input.dtype());
      wide.push_back(floating ? from_vector(input.to_vector(), input.shape(), DType::f64) : input);
    }
    for (std::size_t i = 0; i < wide.size(); ++i)
      if (row.inputs()[i].is_differentiable()) wide[i] = parameter(std::exchange(wide[i], {}));
    const Numbers in_f32 = run_row(row, make_leaves(row, variation));
    check_close(in_f32, run_row(row, wide), row.f32_tolerance());
  });
}

TEST_CASE("every operation gives the same bits at every call, for any number of threads") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const auto run_on = [&](int threads) {
      const ThreadBudget budget(threads);
      return run_row(row, make_leaves(row, variation));
    };
    const Numbers first = run_on(1);
    const auto same = [&](const Numbers& other) {
      for (std::size_t k = 0; k < first.results.size(); ++k)
        if (relative_error(other.results[k], first.results[k]) != 0) return false;
      for (std::size_t k = 0; k < first.gradients.size(); ++k)
        if (relative_error(other.gradients[k], first.gradients[k]) != 0) return false;
      return true;
    };
    CHECK(same(run_on(1)));
    CHECK(same(run_on(3)));
  });
}

TEST_CASE("an operation that works in place of a moved-in operand gives the same values") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> kept = make_inputs(row, variation);
    const std::vector<Tensor> right = row.call(kept);
    const std::vector<Tensor> got = row.call(make_inputs(row, variation));
    REQUIRE(got.size() == right.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      CHECK(got[k].shape() == right[k].shape());
      CHECK(relative_error(got[k].to_vector(), right[k].to_vector()) == 0);
    }
  });
}

TEST_CASE("an operation never changes its operands, nor the upstream gradient") {
  for_each_variation(layout_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> inputs = make_leaves(row, variation);
    Tape tape;
    const std::vector<Tensor> results = row.call(inputs);
    const std::vector<Tensor> upstream = make_upstream(results, Layout::contiguous);
    gradients_of(tape, results, upstream, differentiable(row, inputs));
    const std::vector<Tensor> same = make_inputs(row, variation);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      CHECK(inputs[i].to_vector() == same[i].to_vector());
    const std::vector<Tensor> same_upstream = make_upstream(results, Layout::contiguous);
    for (std::size_t k = 0; k < upstream.size(); ++k)
      if (upstream[k].defined()) CHECK(upstream[k].to_vector() == same_upstream[k].to_vector());
  });
}

TEST_CASE(
    "an operation on intermediates that die at once has the gradients that it has on leaves") {
  // The operands are moved in, as in a chain: what a rule reads must not be worked on in place.
  for_each_variation(shape_variations, [](const OperationCase& row, const Variation& variation) {
    const std::vector<Tensor> leaves = make_leaves(row, variation);
    Tape tape;
    std::vector<Tensor> fresh;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      fresh.push_back(
          row.inputs()[i].is_differentiable()
              ? accumulate(leaves[i], filled("test", leaves[i].shape(), leaves[i].dtype(), 0))
              : leaves[i]);
    const std::vector<Tensor> results = row.call(std::move(fresh));
    Numbers got;
    for (const Tensor& result : results) got.results.push_back(result.to_vector());
    const std::vector<Tensor> wrt = differentiable(row, leaves);
    const auto gradients =
        gradients_of(tape, results, make_upstream(results, Layout::contiguous), wrt);
    if (gradients)
      for (const Tensor& x : wrt) got.gradients.push_back((*gradients)[x].to_vector());
    check_close(got, run_row(row, make_leaves(row, variation)), 1e-14);
  });
}
