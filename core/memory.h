// Where tensors' bytes come from, and what they cost: counters, a limit, reuse of buffers.
//
// Buffers are kept and reused, never zero-filled. "live" counts the bytes that tensors asked for,
// "reserved" what they occupy with the size classes' waste (at most one eighth) plus the buffers
// kept for reuse. All functions are safe on any thread; the counters are those of the process.
#pragma once

#include <tapehead/core/shape.h>
#include <tapehead/core/thread_scope.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tapehead {

/// What memory_stats() counts.
struct MemoryStats {
  std::int64_t live = 0;      ///< requested bytes of the storages that exist now
  std::int64_t peak = 0;      ///< highest `live` since the start or the last reset_peak()
  std::int64_t reserved = 0;  ///< bytes held from the system: live, waste of size classes, and kept
};

/// The figures of the process or, while a DryRun lives on this thread, of that dry run.
MemoryStats memory_stats();

/// Starts a new measurement of the peak at the present live bytes (of the process or the dry run).
void reset_peak();

/// Above `bytes` of reserved memory, allocation throws OutOfMemoryError that lists the largest live
/// storages. 0 takes the limit away. ValueError when negative.
void set_memory_limit(std::int64_t bytes);

/// Gives the buffers kept for reuse back to the system: the shared ones, and those of this thread.
void trim();

/// For tests: while it lives, the `nth` storage allocation on this thread (counted from 1) throws
/// OutOfMemoryError. Failing at every n in turn shows that a program survives each failure. Each of
/// several that live counts for itself.
class FailNthAllocation : public ThreadScope<FailNthAllocation> {
 public:
  /// Allocations count from here on.
  explicit FailNthAllocation(std::int64_t nth) : until_failure_(nth) {}

  /// Counts one allocation; whether it is to fail.
  static bool count();

 private:
  std::int64_t until_failure_;
};

/// Live and peak of one account: the process, or a dry run.
class MemoryAccount {
 public:
  void add(std::int64_t bytes);  ///< so many more are live
  /// So many fewer are live.
  void remove(std::int64_t bytes) { live_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Measures the peak anew.
  void reset_peak() { peak_.store(live(), std::memory_order_relaxed); }
  /// Bytes that are live now.
  std::int64_t live() const { return live_.load(std::memory_order_relaxed); }
  /// The most that were live since the last reset_peak().
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};
};

namespace detail {

struct Block {
  void* data = nullptr;
  std::size_t reserved = 0;
};

/// Uninitialised memory of at least `bytes`, aligned to 64. `operation` and `shape` stand in the
/// error's text.
Block allocate_block(const char* operation, const Shape& shape, std::size_t bytes);
void free_block(Block block) noexcept;

/// Counts one storage allocation and throws if a FailNthAllocation wants this one to fail.
void count_allocation(const char* operation);

MemoryAccount& process_account();

}  // namespace detail
}  // namespace tapehead
