// One pass over a parameter, its gradient and its state: memory is read and written once a step.
// All views have one shape and one floating dtype, any strides, and no two elements in one place.
// State starts as 0.
#pragma once

#include <tapehead/core/view.h>

namespace tapehead::kernels {

struct SgdStep {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// g += weight_decay * p;  buffer = momentum * buffer + g;
/// p -= lr * (nesterov ? g + momentum * buffer : buffer)
void sgd_with_momentum(const View& p, const View& g, const View& buffer, const SgdStep& step);
/// p -= lr * (g + weight_decay * p)
void sgd(const View& p, const View& g, const SgdStep& step);

struct AdamStep {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  bool decoupled = false;  ///< weight decay shrinks p, and does not go through the moments
  double correction1 = 1;  ///< 1 - beta1^k at step k
  double correction2 = 1;  ///< 1 - beta2^k
};

/// decoupled: p -= lr * weight_decay * p, else g += weight_decay * p;
/// m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;
/// p -= lr * (m / correction1) / (sqrt(v / correction2) + eps)
void adam(const View& p, const View& g, const View& m, const View& v, const AdamStep& step);

/// Sum of the squares of all elements, in double, the same for any number of threads.
double sum_of_squares(const View& x);

}  // namespace tapehead::kernels
