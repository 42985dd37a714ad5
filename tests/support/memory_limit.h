// A limit on memory, for one test.
#pragma once

#include <tapehead/core/memory.h>

#include <cstdint>

namespace tapehead::tests {

/// While it lives, no more than so many bytes can be reserved.
struct MemoryLimit {
  explicit MemoryLimit(std::int64_t bytes) { set_memory_limit(bytes); }
  ~MemoryLimit() { set_memory_limit(0); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

}  // namespace tapehead::tests
