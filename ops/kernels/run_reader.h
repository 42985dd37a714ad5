// Reading a strided run in unit steps, a piece at a time, so that a loop over it vectorises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapehead::kernels {

/// A run of elements `stride` apart, handed out in pieces of unit steps: as it stands in memory
/// where it has them, else copied.
class RunReader {
 public:
  static constexpr std::int64_t block = 512;  ///< elements: three operands of doubles fit into L1

  /// Begins with a run; an element has 8, 4 or 1 bytes.
  void start(const void* first, std::size_t element_bytes, std::int64_t stride) {
    first_ = static_cast<const std::byte*>(first);
    bytes_ = static_cast<std::int64_t>(element_bytes);
    stride_ = stride;
    filled_ = 0;
  }

  /// Elements [begin, begin + count) of the run; at most `block` of them where stride is not 1.
  /// Valid until the next call.
  const void* at(std::int64_t begin, std::int64_t count) {
    if (stride_ == 1) return first_ + begin * bytes_;
    if (stride_ == 0 && filled_ >= count) return buffer_;
    fill(first_ + begin * stride_ * bytes_, count);
    filled_ = count;
    return buffer_;
  }

 private:
  void fill(const void* from, std::int64_t count);

  const std::byte* first_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t stride_ = 0;
  std::int64_t filled_ = 0;
  alignas(64) std::byte buffer_[block * sizeof(std::uint64_t)];
};

}  // namespace tapehead::kernels
