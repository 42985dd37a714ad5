// A training step in which one allocation fails, whichever it is: nothing leaks, parameters and
// optimizer are as they were, and the step made again gives what it would have given at once.
#include "support/checks.h"
#include "support/memory_limit.h"
#include "support/training.h"

#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

using namespace tapehead;
using tests::Training;

namespace {

// Makes the `failing`-th step fail at its n-th allocation, and then make it again. Whether there
// were so many.
bool survives(const nn::GptOptions& options, int failing, std::int64_t n,
              const std::vector<Training::Numbers>& expected) {
  Training training(options);
  for (int step = 0; step < failing; ++step) training.step();
  const Training::Numbers before = training.numbers();
  const std::int64_t live = memory_stats().live;
  bool failed = false;
  try {
    const FailNthAllocation fail(n);
    training.step();
  } catch (const OutOfMemoryError&) {
    failed = true;
  }
  CAPTURE(n);
  if (failed) {
    CHECK(memory_stats().live == live);
    CHECK(Tape::recording() == nullptr);
    CHECK(training.numbers() == before);
    training.step();
  }
  CHECK(training.numbers() == expected[static_cast<std::size_t>(failing)]);
  return failed;
}

}  // namespace

TEST_CASE(
    "a training step survives the failure of every single allocation, as if it had not been") {
  nn::GptOptions options = Training::small_model();
  SUBCASE("composed attention") {}
  SUBCASE("fused attention in checkpoints") {
    options.path = nn::AttentionPath::fused;
    options.checkpoint = nn::Checkpointed::block;
  }
  std::vector<Training::Numbers> expected;
  Training undisturbed(options);
  for (int step = 0; step < 2; ++step) {
    undisturbed.step();
    expected.push_back(undisturbed.numbers());
  }
  REQUIRE(expected[0] != expected[1]);
  // The first step makes the optimizer's moments, the second finds them there.
  for (const int failing : {0, 1}) {
    std::int64_t n = 1;
    while (survives(options, failing, n, expected)) ++n;
    CHECK(n > 50);
  }
}

TEST_CASE("a step beyond the memory limit names the largest tensors, and goes on without it") {
  Training training(Training::small_model()), undisturbed(Training::small_model());
  training.step();
  undisturbed.step();
  const Tensor large = full({1 << 20}, 1);
  trim();
  {
    const tests::MemoryLimit limit(memory_stats().reserved);
    tests::check_throws(
        ErrorKind::out_of_memory,
        {"the memory limit is ", "Largest live storages: 4194304 bytes (transient, made by full)"},
        [&] { training.step(); });
  }
  training.step();
  undisturbed.step();
  CHECK(training.numbers() == undisturbed.numbers());
}
