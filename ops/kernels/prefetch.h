// Asking for values before they are read: rows of a few KiB end before the processor has seen that
// they are read in order.
#pragma once

#include <tapehead/ops/kernels/multiversion.h>

#include <cstdint>

namespace tapehead::kernels {

/// Has `count` values at x brought near, for reading them while others are worked on.
template <class T>
TAPEHEAD_INLINE void prefetch(const T* x, std::int64_t count) {
  constexpr std::int64_t line = 64 / sizeof(T);
  for (std::int64_t i = 0; i < count; i += line) __builtin_prefetch(x + i, 0, 2);
}

}  // namespace tapehead::kernels
