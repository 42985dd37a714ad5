// Threads inside an operation, and user threads side by side. Run under the thread sanitizer too.
#include "support/checks.h"
#include "support/toy_operations.h"
#include "support/training.h"

#include <tapehead/core/ledger.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/random.h>
#include <tapehead/core/scope.h>

#include <atomic>
#include <numeric>
#include <thread>

using namespace tapehead;
using tests::check_throws;
using toy::leaf;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

// Runs f(0), f(1)... on `count` threads at once.
template <class F>
void on_threads(int count, F&& f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&f, i] { f(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("parallel_for covers every item once, for any number of threads, items and grain") {
  for (const int threads : {1, 2, 3, 8})
    for (const std::int64_t count : {0, 1, 2, 7, 1000})
      for (const std::int64_t grain : {1, 3, 5000}) {
        const ThreadBudget budget(threads);
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        std::atomic<int> ranges{0};
        parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          ++ranges;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
        CHECK(ranges <= std::max<std::int64_t>(
                            0, std::min<std::int64_t>(threads, (count + grain - 1) / grain)));
      }
}

TEST_CASE(
    "what another thread computes from a recorded tensor has lost its gradient, and says so") {
  const Tensor x = leaf({1, 2}, {2});
  Tape tape;
  const Tensor y = product(x, x);
  Tensor z, number;
  std::thread([&] {
    z = scaled(y, 3);
    const Tape::Pause pause;
    number = scaled(y, 3);  // meant to be a constant
  }).join();
  CHECK(z.requires_grad());
  tests::check_throws(ErrorKind::state, {"total", "gradient is lost"}, [&] { total(z); });
  CHECK_FALSE(number.requires_grad());
  CHECK_FALSE(total(number).requires_grad());
}

TEST_CASE("parallel_for inside parallel_for runs on the calling thread") {
  const ThreadBudget budget(4);
  std::atomic<std::int64_t> sum{0};
  parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto outer = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i)
      parallel_for(100, 1, [&](std::int64_t first, std::int64_t last) {
        if (std::this_thread::get_id() == outer) sum += last - first;
      });
  });
  CHECK(sum == 400);
}

TEST_CASE("a thread budget bounds its own thread only, nests, and must be positive") {
  const int usual = num_threads();
  {
    const ThreadBudget budget(3);
    CHECK(num_threads() == 3);
    {
      const ThreadBudget inner(1);
      CHECK(num_threads() == 1);
    }
    CHECK(num_threads() == 3);
    on_threads(1, [&](int) { CHECK(num_threads() == usual); });
  }
  CHECK(num_threads() == usual);
  CHECK_THROWS_AS(ThreadBudget(0), ValueError);
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
  set_num_threads(7);
  CHECK(num_threads() == 7);
  set_num_threads(usual);
}

TEST_CASE("results do not depend on the number of threads") {
  std::vector<double> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_bits(1, i) * 0x1p-32 - 0.5;
  const Tensor x = from_vector(values, {100, 1000});
  const Tensor turned = alias(x, {1000, 100}, {1, 1000}, 0);
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 8}) {
    const ThreadBudget budget(threads);
    Tensor y = copied("test", turned);
    add_into(y.view(), turned.view());
    scale_in_place(y.view(), 1.1);
    results.push_back(accumulate(y, filled("test", y.shape(), y.dtype(), 0.1)).to_vector());
  }
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
}

TEST_CASE("THR-1 two trainings at once equal the same two one after the other, bit for bit") {
  const auto train = [](int seed, std::vector<double>& losses) {
    const Tensor data = leaf({0.3 * (seed + 1), -0.7, 1.1}, {3});
    Tensor w = leaf({0.1, 0.2 * seed, -0.3}, {3});
    losses.clear();
    for (int step = 0; step < 200; ++step) {
      const ModuleScope scope("model" + std::to_string(seed));
      Tape tape;
      const Tensor error = accumulate(product(w, data), scaled(product(w, w), -0.5));
      const Tensor loss = total(product(error, error));
      const Gradients g = tape.gradient(loss, {w});
      losses.push_back(loss.item());
      Tensor next = copied("step", w);
      launch([&] {
        Tensor change = copied("step", g[w]);
        scale_in_place(change.view(), -0.05);
        add_into(next.view(), change.view());
      });
      w = parameter(std::move(next));
    }
    for (const double value : w.to_vector()) losses.push_back(value);
  };
  std::vector<double> alone[2], together[2];
  for (const int i : {0, 1}) train(i, alone[i]);
  on_threads(2, [&](int i) { train(i, together[i]); });
  for (const int i : {0, 1}) CHECK(together[i] == alone[i]);
  CHECK(alone[0] != alone[1]);
}

TEST_CASE("two Gpts trained at once, on several threads each, equal those trained one by one") {
  const auto train = [](int i) {
    const ThreadBudget budget(2);
    tests::Training training(tests::Training::small_model(), static_cast<std::uint64_t>(i));
    for (int step = 0; step < 5; ++step) training.step();
    return training.numbers();
  };
  tests::Training::Numbers together[2];
  on_threads(2, [&](int i) { together[i] = train(i); });
  for (const int i : {0, 1}) CHECK(together[i] == train(i));
  CHECK(together[0] != together[1]);
}

TEST_CASE("one Gpt read by four threads gives each the same logits, gradients and text") {
  nn::GptOptions options = tests::Training::small_model();
  options.dropout = 0;
  const nn::Gpt model(options);
  const auto read = [&] {
    const std::vector<std::int64_t> text = model.generate({1, 2}, 10, {.temperature = 0});
    Tape tape;
    const Tensor logits = model(from_vector(std::vector<std::int64_t>{3, 1, 4, 1}, {2, 2}));
    std::vector<std::vector<double>> numbers{{text.begin(), text.end()}, logits.to_vector()};
    const Gradients gradients = tape.gradient(sum(square(logits)), model.parameters());
    for (const Tensor& of : gradients.of()) numbers.push_back(gradients[of].to_vector());
    return numbers;
  };
  const auto alone = read();
  std::vector<std::vector<double>> together[4];
  on_threads(4, [&](int i) {
    for (int k = 0; k < 5; ++k) together[i] = read();
  });
  for (const auto& numbers : together) CHECK(numbers == alone);
}

TEST_CASE(
    "THR-3 one shared parameter, two backward passes: each has its own gradients, none is lost") {
  const Tensor w = leaf(0.5);
  std::vector<double> sums(2, 0);
  on_threads(2, [&](int i) {
    for (int step = 0; step < 1000; ++step) {
      Tape tape;
      const Tensor loss = scaled(w, 1);
      sums[static_cast<std::size_t>(i)] += tape.gradient(loss, {w})[w].item();
    }
  });
  CHECK(sums[0] + sums[1] == 2000);
  CHECK(w.storage()->use_count() == 1);
}

TEST_CASE("another thread does not read the graph of a tape or ledger that this one is writing") {
  const Ledger ledger;
  const Tape tape;
  on_threads(1, [&](int) {
    check_throws(ErrorKind::state, {"graph", "another thread"}, [&] { tape.graph(); });
    check_throws(ErrorKind::state, {"Ledger", "another thread"}, [&] { ledger.graph(); });
  });
  CHECK_NOTHROW(tape.graph());
  CHECK_NOTHROW(ledger.graph());
}

TEST_CASE("handles may be dropped on another thread than the one that made them") {
  const std::int64_t before = memory_stats().live;
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 100; ++i) tensors.push_back(filled("test", {i * 10}, DType::f64, i));
    on_threads(1, [&](int) { tensors.clear(); });
  }
  CHECK(memory_stats().live == before);
}

TEST_CASE("counters are exact with many threads allocating") {
  trim();
  const std::int64_t before = memory_stats().live;
  on_threads(4, [](int seed) {
    std::vector<Tensor> kept;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const auto size =
          static_cast<std::int64_t>(random_bits(static_cast<std::uint64_t>(seed), i) % 9000);
      kept.push_back(empty("test", {size}, DType::f64));
      if (i % 3 == 0) kept.erase(kept.begin());
    }
  });
  CHECK(memory_stats().live == before);
}

TEST_CASE("a tape of one thread knows that a tape of another is open") {
  const Tensor x = leaf(2);
  Tape tape;
  const Tensor y = product(x, x);
  on_threads(1, [&](int) {
    const Tape other;
    tests::check_throws(ErrorKind::state, {"another open tape"}, [&] { product(y, x); });
    CHECK(y.item() == 4);
  });
}
