// Thread-local free lists, bounded, for small objects that come and go with every operation (tensor
// handles, nodes, storages). A block freed on another thread joins that thread's list. Internal.
#pragma once

#include <cstddef>

namespace tapehead {

/// Memory for an object of `bytes`, aligned for any ordinary type. Throws std::bad_alloc.
void* pool_allocate(std::size_t bytes);

/// Gives back memory of pool_allocate(bytes); the same `bytes`.
void pool_free(void* memory, std::size_t bytes) noexcept;

/// Base that makes `new` and `delete` of a class hierarchy use the pool. A virtual destructor makes
/// the size right for derived classes.
class Pooled {
 public:
  static void* operator new(std::size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    pool_free(memory, bytes);
  }
};

}  // namespace tapehead
