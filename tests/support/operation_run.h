// Running a row of the table: the call, its gradients, and what the tape recorded.
#pragma once

#include "checks.h"
#include "variation.h"

#include <tapehead/core/tape.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tapehead::tests {

/// Calls f(row, variation) for every row and each of its variations, with both in the messages.
void for_each_variation(
    const std::function<std::vector<Variation>(const OperationCase&)>& variations,
    const std::function<void(const OperationCase&, const Variation&)>& f);

/// The row as a function of its differentiable inputs alone, for gradcheck: the others stay as in
/// `inputs`.
std::function<std::vector<Tensor>(const std::vector<Tensor>&)> as_function(
    const OperationCase& row, const std::vector<Tensor>& inputs);

/// Numbers of results and of gradients, one list a tensor.
struct Numbers {
  std::vector<std::vector<double>> results, gradients;
  bool operator==(const Numbers&) const = default;
};

/// The gradients of sum(upstream * results) on `tape` with respect to the differentiable inputs;
/// none when no result is recorded.
std::optional<Gradients> gradients_of(Tape& tape, const std::vector<Tensor>& results,
                                      const std::vector<Tensor>& upstream,
                                      const std::vector<Tensor>& wrt, GradientOptions options = {});

/// The row on `inputs`, some of them leaves, under a tape of its own.
Numbers run_row(const OperationCase& row, const std::vector<Tensor>& inputs,
                Layout upstream = Layout::contiguous);

/// The largest difference of two lists, relative to the largest absolute value in `right`; infinite
/// where only one is NaN or they are infinities of different signs.
double relative_error(const std::vector<double>& got, const std::vector<double>& right);

/// Fails unless the numbers agree to `tolerance`, relative to the largest of each tensor.
void check_close(const Numbers& got, const Numbers& right, double tolerance);

/// The names of what the graph says was saved, as OperationCase::saves writes them.
std::string saved_names(const Graph& graph, const std::string& operation);

}  // namespace tapehead::tests
