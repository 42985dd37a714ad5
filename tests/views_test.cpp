// What the table of operation cases cannot say of views: which share a storage, and how their
// gradients use memory.
#include "support/checks.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <doctest/doctest.h>

#include <limits>

using namespace tapehead;
using tapehead::tests::check_throws;

namespace {

bool share_storage(const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); }

Tensor counting(const Shape& shape) { return reshape(arange(0, 24, 1, DType::f64), shape); }

}  // namespace

TEST_CASE("a reshape is a view wherever the strides allow it") {
  const Tensor x = counting({2, 3, 4});
  const Tensor swapped = transpose(x, 1, 2);  // (2, 4, 3)
  struct Case {
    Tensor x;
    Shape shape;
    bool is_view;
  };
  const Case cases[] = {
      {x, {6, 4}, true},
      {x, {-1}, true},
      {x, {2, 3, 2, 2}, true},
      {swapped, {2, 2, 2, 3}, true},
      {swapped, {2, 1, 4, 1, 3}, true},
      {swapped, {8, 3}, false},
      {swapped, {2, 12}, false},
      {narrow(x, 1, 0, 2), {2, 8}, true},
      {narrow(x, 1, 0, 2), {16}, false},
      {select(x, 2, 1), {6}, true},
      {expand(reshape(x, {2, 1, 12}), {2, 3, 12}), {6, 12}, false},
      {expand(zeros({}, DType::f64), {2, 3}), {6}, true},
      {transpose(zeros({3, 0, 2}), 0, 2), {0, 5}, true},
  };
  for (const Case& c : cases) {
    CAPTURE(to_string(c.x.shape()));
    CAPTURE(to_string(c.x.strides()));
    CAPTURE(to_string(c.shape));
    const Tensor y = reshape(c.x, c.shape);
    CHECK(share_storage(y, c.x) == c.is_view);
    CHECK(y.to_vector() == c.x.to_vector());
  }
}

TEST_CASE("the graph says whether a reshape copied") {
  Tape tape;
  const Tensor x = parameter(clone(counting({4, 6})));
  const Tensor viewed = reshape(x, {24});
  const Tensor copied = flatten(transpose(x, 0, 1));
  const Graph graph = tape.graph();
  CHECK(graph.nodes[0].attributes == std::vector<Graph::Attribute>{{"copied", false}});
  CHECK(graph.nodes[2].attributes == std::vector<Graph::Attribute>{{"copied", true}});
}

TEST_CASE("VIEW-4 views show what is written to their tensor, copies do not") {
  const Tensor x = tensor({1, 2, 3, 4}, DType::f64);
  const Tensor copy = clone(x), window = narrow(x, 0, 0, 2), matrix = reshape(x, {2, 2});
  fill_(x, 9);
  CHECK(equal(copy, tensor({1, 2, 3, 4}, DType::f64)));
  CHECK(equal(window, tensor({9, 9}, DType::f64)));
  CHECK(equal(matrix, tensor({{9, 9}, {9, 9}}, DType::f64)));
}

TEST_CASE("VIEW-2 the gradient of a slice has the tensor's shape, zeros outside the slice") {
  Tape tape;
  const Tensor x = parameter(tensor({1, 2, 3, 4}, DType::f64));
  const Tensor part = slice(x, 0, 1, 3);
  const Tensor loss = sum(mul(part, part));
  CHECK(equal(tape.gradient(loss, {x})[x], tensor({0, 4, 6, 0}, DType::f64)));

  const Tensor z = parameter(arange(0, 8, 1, DType::f64));
  const Tensor third = slice(z, 0, {}, {}, 3);
  const Tensor upstream = tensor({1, 10, 100}, DType::f64);
  CHECK(equal(tape.gradient(third, {z}, upstream)[z],
              tensor({1, 0, 0, 10, 0, 0, 100, 0}, DType::f64)));
}

TEST_CASE("a slice takes a step of any size, and bounds far outside") {
  const Tensor x = arange(0, 5, 1, DType::f64);
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(equal(slice(x, 0, 1, {}, huge), tensor({1}, DType::f64)));
  CHECK(slice(x, 0, -huge - 1, huge).numel() == 5);
  CHECK(slice(x, 0, huge, {}).numel() == 0);
}

TEST_CASE("VIEW-3 parts of cat that want no gradient still take their place") {
  Tape tape;
  const Tensor b = parameter(ones({1}, DType::f64)), d = parameter(ones({2}, DType::f64));
  const Tensor y = cat({ones({2}, DType::f64), b, ones({1}, DType::f64), d});
  const Gradients g = tape.gradient(y, {b, d}, tensor({1, 2, 3, 4, 5, 6}, DType::f64));
  CHECK(equal(g[b], tensor({3}, DType::f64)));
  CHECK(equal(g[d], tensor({5, 6}, DType::f64)));
}

TEST_CASE("ZERO-5 nothing repeated, nothing narrowed to: gradients of zeros") {
  Tape tape;
  const Tensor x = parameter(arange(0, 3, 1, DType::f64));
  const Tensor repeated = sum(repeat(x, {0})), narrowed = sum(narrow(x, 0, 1, 0));
  CHECK(repeated.item() == 0);
  const Tensor none = zeros({3}, DType::f64);
  CHECK(equal(tape.gradient(repeated, {x}, {}, {.keep = true})[x], none));
  CHECK(equal(tape.gradient(narrowed, {x})[x], none));
}

TEST_CASE("the parts of a split fill one gradient buffer") {
  const DryRun dry_run;
  Tape tape;
  const Tensor x = parameter(zeros({4, 64}, DType::f64));
  const std::vector<Tensor> parts = split(x, 8, 1);
  const std::vector<Tensor> seeds(parts.size(), zeros({4, 8}, DType::f64));
  const std::int64_t before = memory_stats().live;
  reset_peak();
  tape.gradient(parts, std::span(&x, 1), seeds);
  CHECK(memory_stats().peak - before == 4 * 64 * 8);
}

TEST_CASE("a number of parts that no memory holds is a ValueError, not an endless list") {
  const std::int64_t huge = std::int64_t{1} << 62;
  check_throws(ErrorKind::value, {"chunk", "f32 (0)", "4611686018427387904 parts"},
               [&] { chunk(ones({0}), huge); });
  const Tensor wide = expand(ones({1}), {std::int64_t{1} << 40});
  check_throws(ErrorKind::value, {"chunk", "1099511627776 parts"}, [&] { chunk(wide, huge); });
  check_throws(ErrorKind::value, {"split", "549755813888 parts"}, [&] { split(wide, 2); });
  CHECK(split(wide, std::int64_t{1} << 39).size() == 2);
  CHECK(chunk(ones({3}), huge).size() == 3);
  CHECK(chunk(ones({0}), 5).size() == 5);
  check_throws(ErrorKind::value, {"split", "at most 1048576"},
               [&] { split(ones({max_parts + 1}), 1); });
}

TEST_CASE("errors of views name the tensor, what was asked, and the rule") {
  const Tensor x = zeros({2, 3});
  check_throws(ErrorKind::shape, {"reshape", "f32 (2, 3)", "(4)", "number of elements"},
               [&] { reshape(x, {4}); });
  check_throws(ErrorKind::shape, {"only one size may be -1"}, [&] { reshape(x, {-1, -1}); });
  check_throws(ErrorKind::shape, {"do not divide"}, [&] { reshape(x, {4, -1}); });
  check_throws(ErrorKind::shape, {"not determined"}, [&] { reshape(zeros({0}), {0, -1}); });
  check_throws(ErrorKind::value, {"(-2, -3)", "negative"}, [&] { reshape(x, {-2, -3}); });
  check_throws(ErrorKind::value, {"(-1, -2)", "negative"}, [&] { reshape(x, {-1, -2}); });
  const std::int64_t huge = std::int64_t{1} << 40;
  check_throws(ErrorKind::shape, {"(1099511627776, 1099511627776, -1)", "63 bits"}, [&] {
    reshape(x, {huge, huge, -1});
  });
  check_throws(ErrorKind::shape, {"expand", "(4, 3)", "size 2"}, [&] { expand(x, {4, 3}); });
  check_throws(ErrorKind::shape, {"expand", "-1"}, [&] { expand(x, {-1, 2, 3}); });
  check_throws(ErrorKind::index, {"narrow", "size 3"}, [&] { narrow(x, 1, 2, 2); });
  check_throws(ErrorKind::index, {"select", "size 2"}, [&] { select(x, 0, 2); });
  check_throws(ErrorKind::shape, {"select", "()"}, [&] { select(zeros({}), 0, 0); });
  check_throws(ErrorKind::shape, {"split", "size 3"}, [&] {
    split(x, std::vector<std::int64_t>{1, 1}, 1);
  });
  check_throws(ErrorKind::shape, {"cat", "(2, 3)", "(2, 4)"}, [&] { cat({x, zeros({2, 4})}); });
  check_throws(ErrorKind::dtype, {"stack", "f64"}, [&] { stack({x, zeros({2, 3}, DType::f64)}); });
  check_throws(ErrorKind::value, {"cat", "empty"}, [&] { cat({}); });
  check_throws(ErrorKind::shape, {"repeat", "63 bits"}, [&] { repeat(x, {huge, huge}); });
}

TEST_CASE("transposed copies are right for all sizes around those of a tile") {
  for (const std::int64_t rows : {1, 7, 8, 31, 32, 33, 65})
    for (const std::int64_t columns : {1, 8, 9, 32, 40, 64})
      for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
        CAPTURE(rows);
        CAPTURE(columns);
        const Tensor x = to(reshape(arange(2 * rows * columns), {2, rows, columns}), dtype);
        const Tensor y = transpose(contiguous(transpose(x, 1, 2)), 1, 2);
        CHECK(equal(y, x));
        CHECK(equal(flip(contiguous(transpose(flip(x, {0, 1}), 0, 2)), {1, 2}),
                    contiguous(transpose(x, 0, 2))));
      }
}
