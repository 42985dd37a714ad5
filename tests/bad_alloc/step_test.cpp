// A training step in which the general heap gives out: not the memory of tensors (that is
// failed_allocation_test) but any `new`, of a node, a list, a text. A program of its own, for it
// replaces operator new.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "../support/training.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

using namespace tapehead;
using tests::Training;

// ---- a heap that fails on demand ----------------------------------------------------------------

namespace {

thread_local std::int64_t until_failure = 0;  // 0: it does not fail
std::atomic<std::int64_t> blocks_in_use{0};

void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) noexcept {
  if (until_failure > 0 && --until_failure == 0) return nullptr;
  void* block = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (block) ++blocks_in_use;
  return block;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  if (void* block = allocate(bytes, alignment)) return block;
  throw std::bad_alloc();
}

void release(void* block) noexcept {
  if (block) --blocks_in_use;
  std::free(block);
}

}  // namespace

// All of them: sanitizers have their own of those that are left out.
using Alignment = std::align_val_t;
void* operator new(std::size_t n) { return allocate_or_throw(n); }
void* operator new[](std::size_t n) { return allocate_or_throw(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
void* operator new(std::size_t n, Alignment a) {
  return allocate_or_throw(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, Alignment a) {
  return allocate_or_throw(n, static_cast<std::size_t>(a));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete[](void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, Alignment) noexcept { release(block); }
void operator delete[](void* block, Alignment) noexcept { release(block); }
void operator delete(void* block, std::size_t, Alignment) noexcept { release(block); }
void operator delete[](void* block, std::size_t, Alignment) noexcept { release(block); }

// ---- the test -----------------------------------------------------------------------------------

namespace {

enum class Outcome { undisturbed, refused, made_nevertheless };

// A step whose n-th `new` fails. It is refused unless nobody minds: a buffer that finds no room in
// a list of free ones goes back to the system.
Outcome step_failing_at(std::int64_t n, Training& training) {
  until_failure = n;
  bool refused = false;
  try {
    training.step();
  } catch (const std::bad_alloc&) {
    refused = true;
  } catch (const OutOfMemoryError&) {  // of to_vector()
    refused = true;
  }
  const bool failed = until_failure == 0;
  until_failure = 0;
  CHECK((failed || !refused));
  return refused ? Outcome::refused : failed ? Outcome::made_nevertheless : Outcome::undisturbed;
}

}  // namespace

TEST_CASE("a training step survives the failure of every `new`: it is made or it is not") {
  Training training(Training::small_model()), undisturbed(Training::small_model());
  // Lists of free blocks grow to what a step needs, after the first takes the optimizer's state.
  for (int i = 0; i < 2; ++i) {
    training.step();
    undisturbed.step();
  }
  std::int64_t n = 0;
  for (Outcome outcome = Outcome::refused; outcome != Outcome::undisturbed;) {
    ++n;
    CAPTURE(n);
    const Training::Numbers before = training.numbers();
    const std::int64_t live = memory_stats().live, blocks = blocks_in_use;
    outcome = step_failing_at(n, training);
    CHECK(memory_stats().live == live);
    CHECK(Tape::recording() == nullptr);
    if (outcome == Outcome::refused) {
      CHECK(blocks_in_use == blocks);
      CHECK(training.numbers() == before);
      if (n % 100 != 0) continue;
      training.step();
    }
    undisturbed.step();
    CHECK(training.numbers() == undisturbed.numbers());
  }
  CHECK(n > 300);
}

TEST_CASE("a thread whose lists of free buffers cannot grow gives the buffers back") {
  nn::GptOptions options = Training::small_model();
  options.vocab_size = 3000;  // also buffers that all threads share
  const Training undisturbed(options);
  Outcome outcome = Outcome::refused;
  for (std::int64_t n = 1; outcome != Outcome::undisturbed; n += 3) {
    CAPTURE(n);
    Training training(options);
    const std::int64_t live = memory_stats().live;
    std::thread([&] { outcome = step_failing_at(n, training); }).join();
    if (outcome != Outcome::refused) continue;
    CHECK(memory_stats().live == live);
    CHECK(training.numbers() == undisturbed.numbers());
  }
}

TEST_CASE("a ledger that lost an event to a failed `new` says so, and the step is made or not") {
  Training training(Training::small_model());
  training.step();
  std::int64_t n = 1;
  for (Outcome outcome = Outcome::refused; outcome != Outcome::undisturbed; n += 7) {
    CAPTURE(n);
    const Training::Numbers before = training.numbers();
    const std::int64_t live = memory_stats().live;
    const Ledger ledger;
    outcome = step_failing_at(n, training);
    CHECK(memory_stats().live == live);
    CHECK((training.numbers() == before) == (outcome == Outcome::refused));
  }
}
