#include <tapehead/core/dry_run.h>
#include <tapehead/core/error.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/storage.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace tapehead {
namespace {

constexpr std::size_t alignment = 64;
// Blocks up to this size are kept per thread, by exact size class, without a lock.
constexpr std::size_t largest_small = std::size_t{32} << 10;
constexpr std::size_t small_cache_limit = std::size_t{8} << 20;
constexpr std::size_t page = 4096;

std::atomic<std::int64_t> reserved_bytes{0};
std::atomic<std::int64_t> limit_bytes{0};

// Eight classes a doubling: the waste is at most one eighth.
std::size_t small_class_size(std::size_t bytes) {
  if (bytes <= alignment) return alignment;
  const std::size_t step = std::max(std::bit_floor(bytes - 1) / 8, alignment);
  return (bytes + step - 1) / step * step;
}

std::size_t small_class_index(std::size_t class_size) { return class_size / alignment; }

void return_to_system(void* data, std::size_t bytes) {
  std::free(data);
  reserved_bytes.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

// ---- small blocks: one cache a thread -----------------------------------------------------------

struct SmallCache {
  std::array<std::vector<void*>, largest_small / alignment + 1> lists;
  std::size_t bytes = 0;

  ~SmallCache();
  void drop() {
    for (std::size_t index = 0; index < lists.size(); ++index) {
      for (void* data : lists[index]) return_to_system(data, index * alignment);
      lists[index].clear();
    }
    bytes = 0;
  }
};

enum class CacheState : char { unused, open, closed };
constinit thread_local CacheState cache_state = CacheState::unused;

SmallCache::~SmallCache() {
  drop();
  cache_state = CacheState::closed;  // storages destroyed later on this thread bypass the cache
}

SmallCache* small_cache() {
  if (cache_state == CacheState::closed) return nullptr;
  cache_state = CacheState::open;
  thread_local SmallCache cache;
  return &cache;
}

void* take_small(std::size_t class_size) {
  SmallCache* cache = small_cache();
  if (!cache) return nullptr;
  std::vector<void*>& list = cache->lists[small_class_index(class_size)];
  if (list.empty()) return nullptr;
  void* data = list.back();
  list.pop_back();
  cache->bytes -= class_size;
  return data;
}

// Whether it was kept; the list may have no room for it and not get more.
bool keep_small(void* data, std::size_t class_size) try {
  SmallCache* cache = small_cache();
  if (!cache || cache->bytes + class_size > small_cache_limit) return false;
  cache->lists[small_class_index(class_size)].push_back(data);
  cache->bytes += class_size;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// ---- large blocks: one cache for all threads, best fit ------------------------------------------

struct LargeCache {
  std::mutex mutex;
  std::multimap<std::size_t, void*> blocks;
};

// Never destroyed: storages in static objects may be freed after it would have been.
LargeCache& large_cache() {
  static LargeCache& cache = *new LargeCache;
  return cache;
}

detail::Block take_large(std::size_t bytes) {
  LargeCache& cache = large_cache();
  const std::lock_guard lock(cache.mutex);
  const auto found = cache.blocks.lower_bound(bytes);
  if (found == cache.blocks.end() || found->first > bytes + bytes / 8) return {};
  const detail::Block block{found->second, found->first};
  cache.blocks.erase(found);
  return block;
}

// Whether it was kept, as above.
bool keep_large(detail::Block block) try {
  LargeCache& cache = large_cache();
  const std::lock_guard lock(cache.mutex);
  cache.blocks.emplace(block.reserved, block.data);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// ---- the system ---------------------------------------------------------------------------------

bool over_limit(std::size_t more) {
  const std::int64_t limit = limit_bytes.load(std::memory_order_relaxed);
  return limit > 0 &&
         reserved_bytes.load(std::memory_order_relaxed) + static_cast<std::int64_t>(more) > limit;
}

[[noreturn]] void throw_out_of_memory(const char* operation, const Shape& shape,
                                      std::size_t bytes) {
  std::string text =
      "shape " + to_string(shape) + ": " + std::to_string(bytes) + " bytes cannot be allocated";
  if (over_limit(bytes))
    text += ": the memory limit is " + std::to_string(limit_bytes.load(std::memory_order_relaxed)) +
            " bytes, reserved are " +
            std::to_string(reserved_bytes.load(std::memory_order_relaxed));
  throw OutOfMemoryError(operation, text + describe_largest_storages());
}

// Counts `more` bytes as reserved unless that would pass the limit: threads that allocate at the
// same time do not pass it together.
bool reserve(std::int64_t more) {
  const std::int64_t limit = limit_bytes.load(std::memory_order_relaxed);
  std::int64_t held = reserved_bytes.load(std::memory_order_relaxed);
  do {
    if (limit > 0 && held + more > limit) return false;
  } while (!reserved_bytes.compare_exchange_weak(held, held + more, std::memory_order_relaxed));
  return true;
}

void* reserve_and_allocate(std::size_t bytes) {
  if (!reserve(static_cast<std::int64_t>(bytes))) return nullptr;
  void* data = std::aligned_alloc(alignment, bytes);
  if (!data) reserved_bytes.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  return data;
}

void* allocate_from_system(const char* operation, const Shape& shape, std::size_t bytes) {
  if (void* data = reserve_and_allocate(bytes)) return data;
  trim();
  if (void* data = reserve_and_allocate(bytes)) return data;
  throw_out_of_memory(operation, shape, bytes);
}

}  // namespace

void MemoryAccount::add(std::int64_t bytes) {
  const std::int64_t now = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

MemoryStats memory_stats() {
  if (const MemoryAccount* dry = DryRun::account()) return {dry->live(), dry->peak(), 0};
  const MemoryAccount& account = detail::process_account();
  return {account.live(), account.peak(), reserved_bytes.load(std::memory_order_relaxed)};
}

void reset_peak() {
  MemoryAccount* dry = DryRun::account();
  (dry ? *dry : detail::process_account()).reset_peak();
}

void set_memory_limit(std::int64_t bytes) {
  if (bytes < 0)
    throw ValueError("set_memory_limit", "the limit " + std::to_string(bytes) + " is negative");
  limit_bytes.store(bytes, std::memory_order_relaxed);
}

void trim() {
  if (SmallCache* cache = small_cache()) cache->drop();
  std::multimap<std::size_t, void*> blocks;
  {
    LargeCache& cache = large_cache();
    const std::lock_guard lock(cache.mutex);
    blocks.swap(cache.blocks);
  }
  for (const auto& [bytes, data] : blocks) return_to_system(data, bytes);
}

bool FailNthAllocation::count() {
  bool fails = false;
  for (FailNthAllocation* each = innermost(); each; each = each->outer())
    fails = --each->until_failure_ == 0 || fails;
  return fails;
}

namespace detail {

MemoryAccount& process_account() {
  static constinit MemoryAccount account;
  return account;
}

void count_allocation(const char* operation) {
  if (FailNthAllocation::count())
    throw OutOfMemoryError(operation, "this allocation was made to fail by FailNthAllocation");
}

Block allocate_block(const char* operation, const Shape& shape, std::size_t bytes) {
  if (bytes <= largest_small) {
    const std::size_t size = small_class_size(bytes);
    if (void* data = take_small(size)) return {data, size};
    return {allocate_from_system(operation, shape, size), size};
  }
  if (bytes > std::numeric_limits<std::size_t>::max() / 2)
    throw_out_of_memory(operation, shape, bytes);
  if (const Block block = take_large(bytes); block.data) return block;
  const std::size_t size = (bytes + page - 1) / page * page;
  return {allocate_from_system(operation, shape, size), size};
}

void free_block(Block block) noexcept {
  const bool kept =
      block.reserved <= largest_small ? keep_small(block.data, block.reserved) : keep_large(block);
  if (!kept) return_to_system(block.data, block.reserved);
}

}  // namespace detail
}  // namespace tapehead
