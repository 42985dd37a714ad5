// Bytes that tensors take. The shapes are a tape's or have passed validate(): sums fit.
#pragma once

#include <tapehead/core/graph.h>

#include <cstdint>

namespace tapehead::graph {

/// Of a row-major tensor.
inline std::int64_t bytes_of(const Shape& shape, DType dtype) {
  return numel(shape) * static_cast<std::int64_t>(size_of(dtype));
}

/// Of the distinct elements that the value shows: an expanded dim shows the same ones again.
inline std::int64_t needed_bytes(const Graph::Value& value) {
  auto bytes = static_cast<std::int64_t>(size_of(value.dtype));
  for (int dim = 0; dim < value.shape.rank(); ++dim)
    if (value.strides[dim] != 0 || value.shape[dim] == 0) bytes *= value.shape[dim];
  return bytes;
}

}  // namespace tapehead::graph
