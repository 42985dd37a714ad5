// Objects that mean something to their thread while they live, destroyed in the wrong order.
#include "support/checks.h"
#include "support/process.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/nan_guard.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/random.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/core/testing.h>
#include <tapehead/nn/attention_recorder.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/pointwise.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace tapehead::tests {
namespace {

// Makes two of a kind and destroys the older first; `seen` is the newer one while both live.
template <class T>
class TwoOutOfOrder {
 public:
  template <class... Args>
  explicit TwoOutOfOrder(const Args&... args)
      : older_(std::make_unique<T>(args...)), newer_(std::make_unique<T>(args...)) {}

  void drop_older() { older_.reset(); }
  void drop_newer() { newer_.reset(); }
  T& newer() { return *newer_; }

 private:
  std::unique_ptr<T> older_, newer_;
};

template <class T>
void destroy_on_another_thread(std::unique_ptr<T> object) {
  std::thread([&] { object.reset(); }).join();
}

struct Destroyer final : testing::RuleHook {
  std::unique_ptr<Tape> tape = std::make_unique<Tape>();
  Grads run(Node& node, Tensor g, const Wanted& wanted) override {
    tape.reset();
    return node.backward(std::move(g), wanted);
  }
};

void destroy_in_its_own_walk() {
  const Tensor x = parameter(ones({1}));
  Destroyer destroyer;
  destroyer.tape->gradient(exp(x), {x});
}

void destroy_in_use(const std::string& kind) {
  if (kind == "walked tape") destroy_in_its_own_walk();
  if (kind == "tape") destroy_on_another_thread(std::make_unique<Tape>());
  if (kind == "dry run") destroy_on_another_thread(std::make_unique<DryRun>());
  if (kind == "failure") destroy_on_another_thread(std::make_unique<FailNthAllocation>(1));
}

}  // namespace

TEST_CASE("the newer of two hooks is asked when the older is gone, and then nobody") {
  TwoOutOfOrder<nn::KeepInBf16> hooks;
  hooks.drop_older();
  CHECK(SavedTensorHooks::current() == &hooks.newer());
  hooks.drop_newer();
  CHECK(SavedTensorHooks::current() == nullptr);
}

TEST_CASE("the newer of two NanGuards watches when the older is gone, and then nobody") {
  const auto make_nan = [] { sqrt(full({2}, -1)); };
  TwoOutOfOrder<NanGuard> guards;
  guards.drop_older();
  CHECK(NanGuard::watching());
  check_throws(ErrorKind::nan, {"sqrt"}, make_nan);
  guards.drop_newer();
  CHECK_FALSE(NanGuard::watching());
  CHECK_NOTHROW(make_nan());
}

TEST_CASE("a dry run goes on when an older one ends, with its own account") {
  TwoOutOfOrder<DryRun> runs;
  const Tensor x = zeros({256});
  runs.drop_older();
  CHECK(DryRun::active());
  CHECK(memory_stats().live == 1024);
  runs.drop_newer();
  CHECK_FALSE(DryRun::active());
}

TEST_CASE("a ledger sees all that happens while it lives, whichever ledger ends first") {
  TwoOutOfOrder<Ledger> ledgers;
  const Tensor x = zeros({256});
  ledgers.drop_older();
  const Tensor y = zeros({256});
  CHECK(ledgers.newer().graph().storages.size() == 2);
  ledgers.drop_newer();
  CHECK_FALSE(Ledger::watching());
}

TEST_CASE("a recorder of attention records when an older one is gone") {
  TwoOutOfOrder<nn::AttentionRecorder> recorders;
  recorders.drop_older();
  nn::AttentionRecorder::record(ones({1, 1, 2, 2}));
  CHECK(recorders.newer().maps().size() == 1);
  recorders.drop_newer();
  CHECK_FALSE(nn::AttentionRecorder::active());
}

TEST_CASE("a module scope keeps its path when the one around it ends, and then the root is back") {
  auto model = std::make_unique<ModuleScope>("model");
  auto layer = std::make_unique<ModuleScope>("layer");
  CHECK(ModuleScope::path() == "model.layer");
  model.reset();
  CHECK(ModuleScope::path() == "model.layer");
  layer.reset();
  CHECK(ModuleScope::path().empty());
}

TEST_CASE("the newer of two rule hooks runs the rules when the older is gone, and then nobody") {
  struct Silent final : testing::RuleHook {
    Grads run(Node& node, Tensor g, const Wanted& wanted) override {
      return node.backward(std::move(g), wanted);
    }
  };
  TwoOutOfOrder<Silent> hooks;
  hooks.drop_older();
  CHECK(testing::RuleHook::current() == &hooks.newer());
  hooks.drop_newer();
  CHECK(testing::RuleHook::current() == nullptr);
}

TEST_CASE("an allocation made to fail fails whichever FailNthAllocation ends first") {
  auto older = std::make_unique<FailNthAllocation>(1);
  auto newer = std::make_unique<FailNthAllocation>(3);
  const auto allocate = [] { zeros({4}); };
  check_throws(ErrorKind::out_of_memory, {"FailNthAllocation"}, allocate);
  older.reset();
  CHECK_NOTHROW(allocate());
  check_throws(ErrorKind::out_of_memory, {"FailNthAllocation"}, allocate);
  newer.reset();
  CHECK_NOTHROW(allocate());
}

TEST_CASE("a tape or other scope destroyed where it is in use ends the program and says why") {
  const char* variable = "TAPEHEAD_TEST_DESTROY";
  if (const char* kind = std::getenv(variable)) return destroy_in_use(kind);
  const auto check = [&](const std::string& kind, const std::string& what) {
    const std::string text = last_words("a tape or other scope destroyed*", variable, kind);
    CAPTURE(text);
    CHECK(text.find(what) != text.npos);
  };
  check("tape", "a Tape was destroyed on another thread");
  check("walked tape", "a Tape was destroyed by a rule or hook of its own reverse walk");
  check("dry run", "an object of a thread's scope was destroyed on another thread");
  check("failure", "an object of a thread's scope was destroyed on another thread");
}

TEST_CASE("a budget of threads holds until it ends, whichever budget ends first") {
  const int before = num_threads();
  auto one = std::make_unique<ThreadBudget>(1);
  auto three = std::make_unique<ThreadBudget>(3);
  one.reset();
  CHECK(num_threads() == 3);
  three.reset();
  CHECK(num_threads() == before);
}

TEST_CASE("recorders of random draws end in any order") {
  std::vector<Draw> of_older, of_newer;
  auto older = std::make_unique<RecordDraws>(of_older);
  auto newer = std::make_unique<RecordDraws>(of_newer);
  Generator generator(3);
  generator.take(4);
  older.reset();
  generator.take(8);
  newer.reset();
  generator.take(12);
  CHECK(of_older.size() == 1);
  CHECK(of_newer.size() == 2);
}

}  // namespace tapehead::tests
