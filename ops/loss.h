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

// The losses below compare x with a target of the same shape (ShapeError) and floating dtype
// (DTypeError). All save x, target (smooth_l1_loss with beta 0 their difference); a gradient flows
// to the target as well.

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
