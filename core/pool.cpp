#include <tapehead/core/pool.h>

#include <array>
#include <new>
#include <utility>

namespace tapehead {
namespace {

constexpr std::size_t granularity = 32;
constexpr std::size_t largest_pooled = 1024;
constexpr std::size_t list_count = largest_pooled / granularity;
constexpr std::size_t longest_list = 4096;

struct FreeBlock {
  FreeBlock* next;
};

struct FreeLists {
  std::array<FreeBlock*, list_count> heads{};
  std::array<std::size_t, list_count> lengths{};
  bool closed = false;  // the thread is ending: objects freed from now on go back to the system
};

// Trivially destructible, so that objects destroyed late in a thread's life still find it.
constinit thread_local FreeLists lists;

struct Drain {
  ~Drain() {
    lists.closed = true;
    for (FreeBlock*& head : lists.heads)
      while (head) ::operator delete(std::exchange(head, head->next));
  }
};

void drain_at_thread_exit() { thread_local const Drain drain; }

constexpr std::size_t list_of(std::size_t bytes) { return (bytes - 1) / granularity; }

}  // namespace

void* pool_allocate(std::size_t bytes) {
  if (bytes > largest_pooled) return ::operator new(bytes);
  const std::size_t list = list_of(bytes);
  if (FreeBlock* block = lists.heads[list]) {
    lists.heads[list] = block->next;
    --lists.lengths[list];
    return block;
  }
  return ::operator new((list + 1) * granularity);
}

void pool_free(void* memory, std::size_t bytes) noexcept {
  if (bytes > largest_pooled) return ::operator delete(memory);
  const std::size_t list = list_of(bytes);
  if (lists.closed || lists.lengths[list] >= longest_list) return ::operator delete(memory);
  if (lists.lengths[list] == 0) drain_at_thread_exit();
  lists.heads[list] = new (memory) FreeBlock{lists.heads[list]};
  ++lists.lengths[list];
}

}  // namespace tapehead
