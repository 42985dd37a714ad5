// The losses of classes. Of micro-batches, see loss.h.
#pragma once

#include <tapehead/ops/loss.h>

namespace tapehead {

/// How cross_entropy weighs and adds up.
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;       ///< targets of this value count for nothing
  double label_smoothing = 0;             ///< in [0, 1], else ValueError
  Reduction reduction = Reduction::mean;  ///< of the losses
  Tensor weight = {};                     ///< one factor for each class (no gradient), or undefined
};

/// With lp = log_softmax(logits) over the class dim (1, or 0 for 1-D logits), C classes, smoothing
/// s and w the weights or 1: loss = (1 - s) * w[target] * -lp[target] + s / C * sum(w * -lp); 0 for
/// an ignored target. mean divides by the sum of w[target] over the targets kept, without weights
/// their number; when none is kept that is 0/0 = NaN, and the gradient is 0. saves logits, target
/// (and the count for mean, and weight): dlogits = (softmax(logits) * sum(q) - q) * g / count, 0
/// for an ignored target, with q = (1 - s) * w[target] * onehot + s / C * w. Its softmax is
/// computed again, which costs little beside the product that made the logits. target: i64, the
/// logits' shape without the class dim. DTypeError; ShapeError; IndexError names a target that is
/// no class.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions options = {});

/// loss = w[target] * -x[target] for log-probabilities x; shapes, options and errors as for
/// cross_entropy, without smoothing.
/// saves target (and the count for mean, and weight);  dx = -w[target] * onehot * g / count
Tensor nll_loss(const Tensor& x, const Tensor& target, std::int64_t ignore_index = -100,
                Reduction reduction = Reduction::mean, const Tensor& weight = {});

}  // namespace tapehead
