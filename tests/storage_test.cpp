// Storages, the bytes on the books, reuse of buffers, and what happens when memory runs out.
#include "support/checks.h"
#include "support/memory_limit.h"
#include "support/toy_operations.h"

using namespace tapehead;
using tests::check_throws;
using tests::MemoryLimit;
using toy::leaf;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

constexpr std::int64_t megabyte = 1 << 20;

Tensor bytes_of(std::int64_t count, const char* operation = "bytes_of") {
  return empty(operation, {count}, DType::boolean);
}

}  // namespace

// ---- accounting ---------------------------------------------------------------------------------

TEST_CASE("live counts requested bytes by storage, whatever the number of handles and views") {
  const std::int64_t before = memory_stats().live;
  {
    const Tensor x = bytes_of(1001), same = x;
    const Tensor view = alias(x, {10}, {1}, 5);
    CHECK(memory_stats().live == before + 1001);
  }
  CHECK(memory_stats().live == before);
  const Tensor nothing = bytes_of(0);
  CHECK(memory_stats().live == before);
}

TEST_CASE("a view keeps the whole storage alive") {
  const std::int64_t before = memory_stats().live;
  Tensor view;
  {
    const Tensor base = bytes_of(5000);
    view = alias(base, {1}, {1}, 4999);
  }
  CHECK(memory_stats().live == before + 5000);
  view = Tensor();
  CHECK(memory_stats().live == before);
}

TEST_CASE("peak is the highest live since reset_peak") {
  reset_peak();
  const std::int64_t before = memory_stats().live;
  CHECK(memory_stats().peak == before);
  {
    const Tensor a = bytes_of(3000);
    { const Tensor b = bytes_of(4000); }
    const Tensor c = bytes_of(1000);
  }
  CHECK(memory_stats().peak == before + 7000);
  CHECK(memory_stats().live == before);
  reset_peak();
  CHECK(memory_stats().peak == before);
}

TEST_CASE(
    "reserved covers live with at most an eighth of waste, and trim gives kept buffers back") {
  for (const std::int64_t bytes : {1, 64, 65, 1000, 4097, 32768, 32769, 100000, 1000000}) {
    trim();
    const MemoryStats before = memory_stats();
    const Tensor x = bytes_of(bytes);
    const auto reserved = static_cast<std::int64_t>(x.storage()->reserved_bytes());
    CHECK(reserved >= bytes);
    CHECK(reserved <= bytes + std::max<std::int64_t>({64, bytes / 8, bytes > 32768 ? 4096 : 0}));
    CHECK(memory_stats().reserved == before.reserved + reserved);
    CHECK(reinterpret_cast<std::uintptr_t>(x.storage()->data()) % 64 == 0);
  }
}

TEST_CASE("reserved returns to what it was after trim") {
  trim();
  const MemoryStats before = memory_stats();
  { const Tensor small = bytes_of(100), large = bytes_of(megabyte); }
  CHECK(memory_stats().live == before.live);
  CHECK(memory_stats().reserved > before.reserved);
  trim();
  CHECK(memory_stats().reserved == before.reserved);
}

TEST_CASE(
    "a freed buffer is reused for one of its size, or a little smaller, and not for a tiny one") {
  for (const std::int64_t size : {std::int64_t{1000}, megabyte}) {
    trim();
    Tensor x = bytes_of(size);
    const std::byte* address = x.storage()->data();
    x = Tensor();
    x = bytes_of(size - 8);
    CHECK(x.storage()->data() == address);
    x = Tensor();
    x = bytes_of(size / 4);
    CHECK(x.storage()->data() != address);
  }
}

TEST_CASE("storage ids only grow, and versions count writes") {
  const Tensor a = bytes_of(1), b = bytes_of(1);
  CHECK(b.storage()->id() > a.storage()->id());
  CHECK(a.storage()->version() == 0);
  a.storage()->bump_version();
  CHECK(alias(a, {1}, {1}, 0).storage()->version() == 1);
}

TEST_CASE("categories say what a storage is for") {
  const Tensor x = leaf({1, 2}, {2}), input = from_vector<double>({1, 2}, {2});
  CHECK(x.storage()->category() == Category::parameter);
  CHECK(input.storage()->category() == Category::input);
  Tape tape;
  const Tensor y = scaled(x, 2);
  CHECK(y.storage()->category() == Category::transient);
  const Tensor z = product(y, input), w = product(y, y);
  CHECK(y.storage()->category() == Category::saved);
  CHECK(input.storage()->category() == Category::input);
  CHECK(w.storage()->category() == Category::transient);
  CHECK(to_string(Category::optimizer_state) == "optimizer_state");
}

// ---- what a tape costs --------------------------------------------------------------------------

TEST_CASE("saved activation bytes of the graph are the live bytes that the tape holds") {
  const Tensor x = leaf({1, 2, 3}, {3}), k = from_vector<double>({4, 5, 6}, {3});
  std::int64_t held = 0, claimed = 0;
  {
    Tape tape;
    {
      const Tensor a = product(x, k);             // saves k: an input
      const Tensor b = product(a, a);             // saves a once, in two slots
      const Tensor c = product(scaled(b, 2), x);  // saves the scaled copy and x: a parameter
      total(c);                                   // saves nothing
    }
    const Graph graph = tape.graph();
    claimed = graph.saved_activation_bytes();
    CHECK(graph.saved_bytes() == claimed + 2 * 24);
    held = memory_stats().live;
  }
  CHECK(claimed == 2 * 24);
  CHECK(held - memory_stats().live == claimed);
}

TEST_CASE("a walk that consumes the record frees saved tensors as it goes") {
  const Tensor x = leaf(std::vector<double>(1000, 1.0), {1000});
  const std::int64_t before = memory_stats().live;
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = product(scaled(y, 1), y);
  Tensor loss = total(y);
  y = Tensor();
  const std::int64_t forward = memory_stats().live - before;
  CHECK(forward >= 10 * 8000);
  reset_peak();
  const Gradients g = tape.gradient(loss, {x});
  CHECK(memory_stats().live == before + 8 + 8000);  // the loss and the gradient
  CHECK(memory_stats().peak <= before + forward + 4 * 8000);
}

// ---- donation -----------------------------------------------------------------------------------

TEST_CASE(
    "a buffer is donated only by its sole owner, whole, of the same type, and untouched by a "
    "tape") {
  const auto fresh = [] { return empty("test", {2, 3}, DType::f64); };
  const Shape shape{2, 3};
  {
    const Tensor x = fresh();
    const std::byte* address = x.storage()->data();
    const Tensor y = donate(x, {6}, DType::f64);
    REQUIRE(y.defined());
    CHECK(y.storage()->data() == address);
    CHECK(y.shape() == Shape{6});
  }
  Tensor x = fresh();
  const Tensor second = x;
  CHECK_FALSE(donate(x, shape, DType::f64).defined());
  x = fresh();
  const Tensor view = alias(x, {1}, {1}, 0);
  CHECK_FALSE(donate(x, shape, DType::f64).defined());
  CHECK_FALSE(donate(view, {1}, DType::f64).defined());
  CHECK_FALSE(donate(fresh(), {2, 2}, DType::f64).defined());
  CHECK_FALSE(donate(fresh(), shape, DType::i64).defined());
  CHECK_FALSE(donate(parameter(fresh()), shape, DType::f64).defined());
  x = fresh();
  CHECK_FALSE(
      donate(alias(std::exchange(x, Tensor()), {3, 2}, {1, 3}, 0), {3, 2}, DType::f64).defined());
  const Tensor one = empty("test", {1}, DType::f64);
  CHECK_FALSE(donate(alias(one, {3}, {0}, 0), {3}, DType::f64).defined());
  const Tensor w = leaf({1, 2}, {2});
  Tape tape;
  const Tensor saved = product(scaled(w, 2), w);
  CHECK(tape.graph().saved.size() == 2);
  x = scaled(w, 3);
  product(x, x);  // the tape now holds x
  CHECK_FALSE(donate(x, {2}, DType::f64).defined());
  CHECK(donate_or_empty("test", x, {2}, DType::f64).storage()->id() > x.storage()->id());
}

TEST_CASE("a dry tensor and a real one do not lend each other buffers") {
  Tensor real = empty("test", {2}, DType::f64);
  const DryRun dry;
  CHECK_FALSE(donate(real, {2}, DType::f64).defined());
  const Tensor unreal = empty("test", {2}, DType::f64);
  CHECK(donate(unreal, {2}, DType::f64).defined());
}

// ---- when memory runs out -----------------------------------------------------------------------

TEST_CASE(
    "beyond the memory limit an error names the request, the limit and the largest storages") {
  trim();
  const Tensor big = bytes_of(3 * megabyte, "big_one"), less = bytes_of(2 * megabyte, "less");
  const MemoryLimit limit(memory_stats().reserved + megabyte);
  check_throws(ErrorKind::out_of_memory,
               {"too_much: ", std::to_string(2 * megabyte), "limit", "big_one",
                std::to_string(3 * megabyte) + " bytes (transient, made by big_one), " +
                    std::to_string(2 * megabyte) + " bytes (transient, made by less)"},
               [] { bytes_of(2 * megabyte, "too_much"); });
  const Tensor fits = bytes_of(megabyte / 2);  // the process goes on
  CHECK_THROWS_AS(set_memory_limit(-1), ValueError);
}

TEST_CASE("kept buffers give way before the limit refuses") {
  trim();
  { const Tensor freed = bytes_of(4 * megabyte); }
  const MemoryLimit limit(memory_stats().reserved + megabyte);
  const Tensor x = bytes_of(3 * megabyte);  // another size class: the kept one must go
  CHECK(x.defined());
}

TEST_CASE("what the system cannot give is an OutOfMemoryError, and the next allocation works") {
  const std::int64_t before = memory_stats().live;
  check_throws(ErrorKind::out_of_memory, {"huge", std::to_string(std::int64_t{1} << 52)},
               [] { bytes_of(std::int64_t{1} << 52, "huge"); });
  CHECK(memory_stats().live == before);
  CHECK(bytes_of(100).defined());
}

TEST_CASE("sizes that cannot exist are errors before anything is allocated") {
  const std::int64_t big = std::int64_t{1} << 61, before = memory_stats().live;
  const auto make = [](const Shape& shape) {
    return [shape] { empty("make", shape, DType::f64); };
  };
  check_throws(ErrorKind::shape, {"make", to_string(Shape{2, 2, 1, big})}, make({2, 2, 1, big}));
  check_throws(ErrorKind::shape, {"make"}, make({std::int64_t{1} << 32, std::int64_t{1} << 32}));
  check_throws(ErrorKind::shape, {"make"}, make({0, big, big}));
  check_throws(ErrorKind::value, {"make", "(-1)"}, make({-1}));
  check_throws(ErrorKind::value, {"make", "(3, -2)"}, make({3, -2}));
  CHECK(memory_stats().live == before);
}

TEST_CASE("a step survives the failure of every single allocation, and nothing leaks") {
  const Tensor x = leaf({1, 2, 3}, {3}), w = leaf({2, 1, 2}, {3});
  const auto step = [&] {
    Tape tape;
    Tensor y = product(x, w);
    y = product(scaled(y, 2), accumulate(y, x));
    const Tensor loss = total(y);
    const Tensor dx = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
    Gradients sum = tape.gradient(total(product(dx, dx)), {x, w}, {}, {.keep = true});
    sum += tape.gradient(loss, {x, w});
    return sum[x].to_vector();
  };
  const std::vector<double> expected = step();
  const std::int64_t before = memory_stats().live;
  std::int64_t failures = 0;
  for (;; ++failures) {
    const FailNthAllocation fail(failures + 1);
    try {
      const std::vector<double> result = step();
      CHECK(result == expected);
      break;  // fewer allocations than that
    } catch (const OutOfMemoryError&) {
    }
    CHECK(memory_stats().live == before);
    CHECK(Tape::recording() == nullptr);
  }
  CHECK(failures > 30);
  CHECK(step() == expected);
  CHECK(memory_stats().live == before);
}

TEST_CASE("FailNthAllocation counts on its own thread, and stops when it is destroyed") {
  {
    const FailNthAllocation fail(2);
    CHECK(bytes_of(1).defined());
    check_throws(ErrorKind::out_of_memory, {"bytes_of", "FailNthAllocation"}, [] { bytes_of(1); });
    CHECK(bytes_of(1).defined());
  }
  const FailNthAllocation fail(100);
  CHECK(bytes_of(1).defined());
}
