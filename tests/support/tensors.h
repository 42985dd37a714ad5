// Tensors that tests make.
#pragma once

#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>

#include <cstdint>
#include <iterator>
#include <vector>

namespace tapehead::tests {

inline Tensor f64(const NestedList& values) { return tensor(values, DType::f64); }
inline Tensor boolean(const NestedList& values) { return tensor(values, DType::boolean); }

/// A tensor of one dim.
inline Tensor numbers(const std::vector<double>& values, DType dtype = DType::f64) {
  return from_vector(values, {std::ssize(values)}, dtype);
}

/// Normally distributed, the same for a seed.
inline Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  Generator generator(seed);
  return randn(shape, dtype, generator);
}

/// A leaf of such numbers, the default generator's next.
inline Tensor random_leaf(const Shape& shape, DType dtype = DType::f64) {
  return parameter(randn(shape, dtype));
}

}  // namespace tapehead::tests
