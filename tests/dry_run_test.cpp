// The dry run: the same code without data, to the byte.
#include "support/checks.h"
#include "support/toy_operations.h"

using namespace tapehead;
using tests::check_throws;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

// What a run leaves on the books: bytes at several moments, the number of storages, and the graph.
struct Books {
  std::vector<std::int64_t> live;
  std::int64_t peak = 0;
  std::uint64_t storages = 0;
  Graph graph;
  bool operator==(const Books&) const = default;
};

std::uint64_t next_storage_id() { return empty("probe", {0}, DType::f32).storage()->id(); }

// A step of training on n numbers, with fan-in, second order and micro-batches.
Books run_step(std::int64_t n) {
  Books books;
  const std::uint64_t first = next_storage_id();
  const std::int64_t start = memory_stats().live;
  reset_peak();
  const auto note = [&] { books.live.push_back(memory_stats().live - start); };
  const std::vector<double> numbers(static_cast<std::size_t>(n), 1.5);
  const Tensor x = parameter(from_vector(numbers, {n})), k = from_vector(numbers, {n});
  {
    Tape tape;
    Tensor y = product(product(x, k), x);
    y = accumulate(scaled(y, 3), y);
    const Tensor loss = total(y);
    note();
    const Tensor dx = tape.gradient(loss, {x}, {}, {.create_graph = true})[x];
    note();
    Gradients g = tape.gradient(total(product(dx, dx)), {x}, {}, {.keep = true});
    g += tape.gradient(loss, {x});
    g *= 0.5;
    note();
    books.graph = tape.graph();
  }
  note();
  books.peak = memory_stats().peak - start;
  books.storages = next_storage_id() - first;
  return books;
}

}  // namespace

TEST_CASE("a dry run has the storages, bytes, peak and graph of the real run") {
  for (const std::int64_t n : {0, 1, 1000}) {
    const Books real = run_step(n);
    const DryRun dry;
    const Books dry_books = run_step(n);
    CHECK(dry_books == real);
    CHECK(real.peak > 8 * n);
    CHECK(real.graph.nodes.size() > 8);
  }
}

TEST_CASE("a dry run touches neither memory nor the books of the process") {
  trim();
  const MemoryStats before = memory_stats();
  {
    const DryRun dry;
    const Tensor x = parameter(empty("x", {std::int64_t{1} << 40}, DType::f64));
    Tape tape;
    const Tensor y = product(x, x);
    CHECK(memory_stats().live == std::int64_t{1} << 44);
    CHECK(tape.graph().saved_bytes() == std::int64_t{1} << 43);
    CHECK(tape.gradient(total(y), {x})[x].numel() == std::int64_t{1} << 40);
    CHECK(memory_stats().peak >= std::int64_t{3} << 43);
  }
  CHECK(memory_stats().live == before.live);
  CHECK(memory_stats().peak == before.peak);
  CHECK(memory_stats().reserved == before.reserved);
}

TEST_CASE("asking a dry tensor for values is a StateError, during the run and afterwards") {
  Tensor y;
  {
    const DryRun dry;
    y = scaled(toy::constant(2), 3);
    check_throws(ErrorKind::state, {"f64 ()", "scaled", "dry run"}, [&] { y.item(); });
    check_throws(ErrorKind::state, {"dry run"}, [&] { y.to_vector(); });
    check_throws(ErrorKind::state, {"dry run"}, [&] { y.view(); });
  }
  check_throws(ErrorKind::state, {"dry run"}, [&] { y.item(); });
  check_throws(ErrorKind::state, {"dry run"}, [&] { scaled(y, 2); });
  check_throws(ErrorKind::shape, {"exactly one"}, [] {
    const DryRun dry;
    empty("two", {2}, DType::f64).item();
  });
}

TEST_CASE("dry runs nest, each with an account of its own, and belong to their thread") {
  CHECK_FALSE(DryRun::active());
  const DryRun outer;
  const Tensor x = empty("x", {10}, DType::f64);
  {
    const DryRun inner;
    CHECK(memory_stats().live == 0);
    const Tensor y = empty("y", {1}, DType::f64);
    CHECK(memory_stats().live == 8);
  }
  CHECK(DryRun::active());
  CHECK(memory_stats().live == 80);
}

TEST_CASE(
    "bytes that do not fit in 63 bits together are an error of the dry run, not a wrong sum") {
  const DryRun dry;
  const Shape half{std::int64_t{1} << 59};
  const Tensor x = empty("x", half, DType::f64);
  check_throws(ErrorKind::out_of_memory,
               {"y", "shape (576460752303423488)", "4611686018427387904 bytes", "63 bits"},
               [&] { empty("y", half, DType::f64); });
  CHECK(memory_stats().live == std::int64_t{1} << 62);
}

TEST_CASE("dry tensors may outlive their run, and are booked off its account") {
  const std::int64_t before = memory_stats().live;
  Tensor x;
  {
    const DryRun dry;
    x = empty("x", {10}, DType::f64);
  }
  x = Tensor();
  CHECK(memory_stats().live == before);
}

TEST_CASE("real tensors may be read by the operations of a dry run, whose results are dry") {
  const Tensor x = toy::leaf({1, 2}, {2});
  const DryRun dry;
  Tape tape;
  const Tensor y = product(x, x);
  CHECK(y.storage()->is_dry());
  CHECK(tape.gradient(total(y), {x})[x].shape() == Shape{2});
  CHECK(x.to_vector() == std::vector<double>{1, 2});
}

TEST_CASE("errors about shapes and types are those of the real run") {
  const auto wrong = [] {
    product(from_vector<double>({1}, {1}), from_vector<double>({1, 2}, {2}));
  };
  const auto real = tests::thrown_by(wrong);
  REQUIRE(real.has_value());
  const DryRun dry;
  CHECK(tests::thrown_by(wrong) == real);
}
