// Drawing classes by their probabilities.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/tensor.h>

namespace tapehead {

/// Draws num_samples positions from each row of probabilities, (n) or (m, n): i64, (num_samples) or
/// (m, num_samples). Rows need not add up to 1. Without replacement no position comes twice, and
/// they are drawn one after the other, each with the probabilities of those left (by the
/// exponential race of Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
/// ShapeError: another rank. ValueError: num_samples is negative; a probability is negative or not
/// finite; a row without a positive one; without replacement, fewer positive ones than samples.
Tensor multinomial(const Tensor& probabilities, std::int64_t num_samples, bool replacement = false,
                   Generator& generator = default_generator());

}  // namespace tapehead
