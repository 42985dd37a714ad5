#include "agreement.h"

#include <tapehead/ops/create.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tapehead::program::bench {
namespace {

double error_of(const Tensor& ours, const Tensor& reference) {
  const std::vector<double> a = ours.to_vector(), b = reference.to_vector();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return std::numeric_limits<double>::quiet_NaN();
    difference = std::max(difference, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return difference == 0 ? 0 : difference / size;
}

}  // namespace

std::vector<Tensor> forward_backward(const std::function<Tensor()>& f,
                                     const std::vector<Tensor>& leaves, const Tensor& seed) {
  Tape tape;
  Tensor y = f();
  const Gradients gradients = tape.gradient(y, leaves, seed);
  std::vector<Tensor> results{y.detach()};
  for (const Tensor& leaf : leaves) results.push_back(gradients[leaf]);
  return results;
}

std::int64_t saved_bytes(const std::function<Tensor()>& f) {
  Tape tape;
  const Tensor y = f();
  return tape.graph().saved_activation_bytes();
}

double product_flops(const std::function<Tensor()>& f) {
  Tape tape;
  const Tensor y = f();
  return 3 * static_cast<double>(tape.flops());
}

double largest_error(const std::vector<Tensor>& ours, const std::vector<Tensor>& reference) {
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double error = error_of(ours[i], reference[i]);
    if (std::isnan(error)) return error;
    largest = std::max(largest, error);
  }
  return largest;
}

void copy_values(const nn::Module& from, nn::Module& to_module) {
  nn::StateDict state = from.state_dict();
  for (nn::NamedTensor& entry : state) entry.tensor = to(entry.tensor.detach(), DType::f64);
  to_module.load_state_dict(state);
}

Tensor reference_leaf(const Tensor& x) { return parameter(to(x.detach(), DType::f64)); }

}  // namespace tapehead::program::bench
