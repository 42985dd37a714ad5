// Reading a strided run in unit steps, a piece at a time, so that a loop over it vectorises.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tapehead::kernels {

/// A run of elements `stride` apart, read in pieces of at most `piece` elements in unit steps.
template <class T>
class RunReader {
 public:
  static constexpr std::int64_t block = 512;  ///< largest piece: three of doubles fit into L1

  RunReader(const T* data, std::int64_t stride, std::int64_t piece) : data_(data), stride_(stride) {
    if (stride_ == 0) std::fill_n(buffer_, piece, *data);
  }
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  const T* at(std::int64_t begin, std::int64_t count) {
    if (stride_ == 1) return data_ + begin;
    if (stride_ != 0)
      for (std::int64_t i = 0; i < count; ++i) buffer_[i] = data_[(begin + i) * stride_];
    return buffer_;
  }

 private:
  const T* data_;
  std::int64_t stride_;
  alignas(64) T buffer_[block];
};

}  // namespace tapehead::kernels
