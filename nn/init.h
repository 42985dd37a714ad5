// Initial values of parameters. Each call draws once from the generator.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/core/tensor.h>

namespace tapehead::nn {

/// U(-1/sqrt(fan_in), 1/sqrt(fan_in)): what torch.nn.Linear starts weight and bias from, with
/// fan_in its number of inputs (He et al. 2015 with a = sqrt(5)). The variance is 1 / (3 fan_in).
/// ValueError: fan_in not positive.
Tensor linear_uniform(const Shape& shape, std::int64_t fan_in, DType dtype,
                      Generator& generator = default_generator());

/// U(-a, a), a = sqrt(6 / (rows + columns)) of a matrix (Glorot and Bengio 2010). ShapeError unless
/// `shape` has two dims.
Tensor xavier_uniform(const Shape& shape, DType dtype, Generator& generator = default_generator());

/// Normal with the given mean and standard deviation.
Tensor normal(const Shape& shape, double mean, double deviation, DType dtype,
              Generator& generator = default_generator());

}  // namespace tapehead::nn
