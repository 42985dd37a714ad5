// Losses over classes. The loss of a row with target t is the sum over classes c of
//     -q[c] * lp[c],   q[c] = (1 - smoothing) * weight[t] * (c == t) + smoothing / classes *
//     weight[c]
// with lp the row's log-probabilities and weight 1 where none is given; an ignored row has q = 0.
#pragma once

#include <tapehead/core/view.h>

#include <cstdint>
#include <optional>

namespace tapehead::kernels {

struct ClassTargets {
  const std::int64_t* target;  ///< one a row
  std::int64_t target_step;
  const void* weight;  ///< one a class, row-major, of the logits' dtype; or null
  std::int64_t rows, classes;
  std::int64_t ignore_index;
  double smoothing;

  std::int64_t at(std::int64_t row) const { return target[row * target_step]; }
  bool ignores(std::int64_t row) const { return at(row) == ignore_index; }
};

/// The first row whose target is neither a class nor ignored.
std::optional<std::int64_t> first_bad_target(const ClassTargets& targets);

/// The number of rows that are not ignored or, with weights, the sum of their targets' weights.
double kept_weight(const ClassTargets& targets, DType dtype);

/// loss (rows) from logits (rows, classes) with stride 1 along classes; 0 in ignored rows.
void cross_entropy(const ClassTargets& targets, const View& logits, const View& loss);

/// dlogits = (softmax(logits) * sum(q) - q) * g / divisor, row-major; 0 in ignored rows. g: rows,
/// or 0-d.
void cross_entropy_backward(const ClassTargets& targets, const View& logits, const View& g,
                            double divisor, const View& dlogits);

/// loss (rows) from log-probabilities x (rows, classes) of any strides, without smoothing.
void nll(const ClassTargets& targets, const View& x, const View& loss);

/// q * factor (rows, classes), row-major.
void target_distribution(const ClassTargets& targets, double factor, const View& q);

}  // namespace tapehead::kernels
