#include "operation_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapehead::tests {

void for_each_variation(
    const std::function<std::vector<Variation>(const OperationCase&)>& variations,
    const std::function<void(const OperationCase&, const Variation&)>& f) {
  for (const OperationCase& row : operation_cases())
    for (const Variation& variation : variations(row)) {
      CAPTURE(describe(row, variation));
      try {
        f(row, variation);
      } catch (const Error& error) {
        FAIL_CHECK("unexpected error: ", error.what());
      }
    }
}

std::function<std::vector<Tensor>(const std::vector<Tensor>&)> as_function(
    const OperationCase& row, const std::vector<Tensor>& inputs) {
  return [&row, inputs](const std::vector<Tensor>& changing) {
    std::vector<Tensor> all = inputs;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (row.inputs()[i].is_differentiable()) all[i] = changing[next++];
    return row.call(std::move(all));
  };
}

std::optional<Gradients> gradients_of(Tape& tape, const std::vector<Tensor>& results,
                                      const std::vector<Tensor>& upstream,
                                      const std::vector<Tensor>& wrt, GradientOptions options) {
  std::vector<Tensor> ys, seeds;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!results[k].requires_grad()) continue;
    ys.push_back(results[k]);
    seeds.push_back(upstream[k]);
  }
  if (ys.empty()) return std::nullopt;
  return tape.gradient(ys, wrt, seeds, options);
}

Numbers run_row(const OperationCase& row, const std::vector<Tensor>& inputs, Layout upstream) {
  Numbers numbers;
  Tape tape;
  const std::vector<Tensor> results = row.call(inputs);
  for (const Tensor& result : results) numbers.results.push_back(result.to_vector());
  const std::vector<Tensor> wrt = differentiable(row, inputs);
  const auto gradients = gradients_of(tape, results, make_upstream(results, upstream), wrt);
  if (gradients)
    for (const Tensor& x : wrt) numbers.gradients.push_back((*gradients)[x].to_vector());
  return numbers;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& right) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (got.size() != right.size()) return infinity;
  double scale = std::numeric_limits<double>::min(), error = 0;
  for (const double value : right)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == right[i] || (std::isnan(got[i]) && std::isnan(right[i]))) continue;
    const double difference = std::abs(got[i] - right[i]);
    error = std::max(error, std::isfinite(difference) ? difference : infinity);
  }
  return error / scale;
}

void check_close(const Numbers& got, const Numbers& right, double tolerance) {
  REQUIRE(got.results.size() == right.results.size());
  REQUIRE(got.gradients.size() == right.gradients.size());
  for (std::size_t k = 0; k < right.results.size(); ++k) {
    INFO("result ", k);
    CHECK(relative_error(got.results[k], right.results[k]) <= tolerance);
  }
  for (std::size_t k = 0; k < right.gradients.size(); ++k) {
    INFO("gradient ", k);
    CHECK(relative_error(got.gradients[k], right.gradients[k]) <= tolerance);
  }
}

std::string saved_names(const Graph& graph, const std::string& operation) {
  std::string names;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const std::string& node = graph.nodes[static_cast<std::size_t>(slot.node)].operation;
    if (!names.empty()) names += ", ";
    names += node == operation ? slot.slot : node + "." + slot.slot;
  }
  return names;
}

}  // namespace tapehead::tests
