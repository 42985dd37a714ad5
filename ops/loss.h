// Losses. Reduction::none keeps one loss for each target, sum and mean give a 0-d tensor.
//
// Micro-batches: the mean of means is not the mean when the counts differ (ignored targets, a last
// short batch). Use Reduction::sum for each, add up, and divide once by the number of targets kept.
#pragma once

#include <tapehead/core/tensor.h>

#include <string_view>

namespace tapehead {

/// What becomes of the losses of single targets.
enum class Reduction { none, mean, sum };
/// "none", "mean" or "sum"; ValueError otherwise.
Reduction parse_reduction(std::string_view text);
/// "none", "mean" or "sum".
std::string_view to_string(Reduction reduction);

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

// The next three compare x with a target of the same shape (ShapeError) and floating dtype
// (DTypeError). All save x, target; a gradient flows to the target as well.

/// loss = (x - target)^2.  dx = 2 * (x - target) * g = -dtarget
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// d = |x - target|: loss = d^2 / (2 beta) where d < beta, else d - beta / 2; so beta 0 is d.
/// dx = clamp((x - target) / beta, -1, 1) * g = -dtarget. ValueError for a negative beta.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::mean);
/// loss = max(x, 0) - x * target + log(1 + exp(-|x|)): the form of
/// -(target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))) that holds for large x.
/// dx = (sigmoid(x) - target) * g, dtarget = -x * g
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        Reduction reduction = Reduction::mean);

}  // namespace tapehead
