#include <tapehead/core/error.h>
#include <tapehead/nn/init.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>

#include <cmath>

namespace tapehead::nn {

Tensor linear_uniform(const Shape& shape, std::int64_t fan_in, DType dtype, Generator& generator) {
  if (fan_in <= 0)
    throw ValueError("linear_uniform", "fan_in " + std::to_string(fan_in) + " must be positive");
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, -bound, bound, dtype, generator);
}

Tensor xavier_uniform(const Shape& shape, DType dtype, Generator& generator) {
  if (shape.rank() != 2)
    throw ShapeError("xavier_uniform", "shape " + to_string(shape) + " must have two dims");
  const double bound = std::sqrt(6 / static_cast<double>(shape[0] + shape[1]));
  return uniform(shape, -bound, bound, dtype, generator);
}

Tensor normal(const Shape& shape, double mean, double deviation, DType dtype,
              Generator& generator) {
  return add(mul(randn(shape, dtype, generator), deviation), mean);
}

}  // namespace tapehead::nn
