// Making, converting, comparing and printing tensors.
#include "support/checks.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/print.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/views.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>

using namespace tapehead;
using tapehead::tests::check_throws;

TEST_CASE("nested lists give their shape") {
  CHECK(tensor(5).shape() == Shape{});
  CHECK(tensor({5}).shape() == Shape{1});
  CHECK(tensor({}).shape() == Shape{0});
  CHECK(tensor({{5}}).shape() == Shape{1, 1});
  CHECK(tensor({{1}, {2}}).shape() == Shape{2, 1});
  CHECK(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}).shape() == Shape{2, 2, 2});
  CHECK(tensor({{1, 2}, {3, 4}}).to_vector() == std::vector<double>{1, 2, 3, 4});
  check_throws(ErrorKind::shape, {"ragged"}, [] { tensor({{1, 2}, {3}}); });
  check_throws(ErrorKind::shape, {"ragged"}, [] { tensor({{1, 2}, 3}); });
}

TEST_CASE("values that do not fill the shape, more dims than a tensor has, and sizes of none") {
  check_throws(ErrorKind::shape, {"from_vector", "3 values", "(2, 2)"}, [] {
    from_vector<double>({1, 2, 3}, {2, 2});
  });
  Shape sixteen(16, 1);
  CHECK(zeros(sixteen).rank() == 16);
  check_throws(ErrorKind::shape, {"at most 16 dims"}, [&] { sixteen.push_back(1); });
  check_throws(ErrorKind::shape, {"at most 16 dims"}, [] { zeros(Shape(17, 1)); });
  check_throws(ErrorKind::index, {"dim 0", "without dims"}, [] { tensor(5).size(0); });
  check_throws(ErrorKind::index, {"dim 2"}, [] { zeros({2, 3}).size(2); });
}

TEST_CASE("zeros, ones and full have the shape, dtype and values asked for") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
    CHECK(zeros({2, 3}, dtype).to_vector() == std::vector<double>(6, 0));
    CHECK(ones_like(zeros({2, 0}, dtype)).dtype() == dtype);
    CHECK(full_like(zeros({2}, dtype), 1).to_vector() == std::vector<double>(2, 1));
  }
}

TEST_CASE("SIZE-1 counts of elements that overflow are errors") {
  constexpr std::int64_t one = 1;
  check_throws(ErrorKind::shape, {"63 bits"}, [] { zeros({2, 2, 1, one << 61}); });
  check_throws(ErrorKind::shape, {"63 bits"}, [] { zeros({one << 32, one << 32}); });
  check_throws(ErrorKind::shape, {"63 bits"}, [] { zeros({one << 31, 2, one << 31}); });
  check_throws(ErrorKind::value, {"negative"}, [] { zeros({-1}); });
  check_throws(ErrorKind::value, {"negative"}, [] { zeros({3, -2}); });
  const Tensor expanded = expand(tensor(1), {3000000000});
  CHECK(expanded.numel() == 3000000000);
  CHECK(expanded.nbytes() == 12000000000);
}

TEST_CASE("SIZE-2 memory that does not exist is an error that names the shape's bytes") {
  check_throws(ErrorKind::out_of_memory, {"zeros", "4503599627370496"},
               [] { zeros({std::int64_t{1} << 50}); });
  CHECK(zeros({2}).to_vector() == std::vector<double>{0, 0});
}

TEST_CASE("arange counts up, down, and not at all") {
  CHECK(equal(arange(0, 1, 0.25), tensor({0, 0.25, 0.5, 0.75})));
  CHECK(equal(arange(5, 0, -2), tensor({5, 3, 1})));
  CHECK(arange(0, 5, -1).numel() == 0);
  CHECK(equal(arange(3), tensor({0, 1, 2}, DType::i64)));
  CHECK(arange(-3).numel() == 0);
  CHECK(arange(1e300, 2e300, 1e300, DType::i64).to_vector<std::int64_t>() ==
        std::vector{std::numeric_limits<std::int64_t>::max()});
  check_throws(ErrorKind::value, {"step"}, [] { arange(0, 1, 0); });
  check_throws(ErrorKind::value, {"finite"}, [] { arange(0, INFINITY); });
  check_throws(ErrorKind::value, {"arange: 1e+300 elements are too many"},
               [] { arange(0, 1e300); });
  check_throws(ErrorKind::value, {"from 1e-09 to inf in steps of 1"},
               [] { arange(1e-9, INFINITY); });
  check_throws(ErrorKind::dtype, {"bool"}, [] { arange(3, DType::boolean); });
}

TEST_CASE("to converts values, and gradients back between floating types") {
  Tape tape;
  const Tensor x = parameter(tensor({1.5, -2.5}));
  CHECK(to(x, DType::f32).is_same(x));
  const Tensor y = to(x, DType::f64);
  CHECK(equal(y, tensor({1.5, -2.5}, DType::f64)));
  CHECK(tape.graph().nodes.at(0).attributes ==
        std::vector<Graph::Attribute>{{"dtype", std::string("f64")}});
  const Tensor dx = tape.gradient(mul(y, y), {x}, ones({2}, DType::f64))[x];
  CHECK(equal(dx, tensor({3, -5})));
  CHECK(equal(to(x, DType::i64), tensor({1, -2}, DType::i64)));
  CHECK_FALSE(to(x, DType::i64).requires_grad());
  CHECK(equal(to(tensor({0, -0.5, NAN}), DType::boolean), tensor({0, 1, 1}, DType::boolean)));
}

TEST_CASE("numbers beyond i64 become the nearest end of its range, NaN 0, wherever they go there") {
  const auto least = std::numeric_limits<std::int64_t>::min(),
             most = std::numeric_limits<std::int64_t>::max();
  const std::vector<double> numbers{-HUGE_VAL, -1e30, -0x1p63, -2.7, NAN, 2.7, 0x1p63, HUGE_VAL};
  const std::vector<std::int64_t> wanted{least, least, least, -2, 0, 2, most, most};
  const Tensor x = from_vector(numbers, {8}, DType::f64);
  CHECK(to(x, DType::i64).to_vector<std::int64_t>() == wanted);
  CHECK(x.to_vector<std::int64_t>() == wanted);
  CHECK(from_vector(numbers, {8}, DType::i64).to_vector<std::int64_t>() == wanted);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(full({}, numbers[i], DType::i64).item<std::int64_t>() == wanted[i]);
    const Tensor filled = masked_fill(zeros({}, DType::i64), ones({}, DType::boolean), numbers[i]);
    CHECK(filled.item<std::int64_t>() == wanted[i]);
  }
}

TEST_CASE("equal compares dtype, shape and values, in any layout") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(equal(x, transpose(tensor({{1, 3}, {2, 4}}), 0, 1)));
  CHECK_FALSE(equal(x, tensor({{1, 2}, {3, 5}})));
  CHECK_FALSE(equal(x, reshape(x, {4})));
  CHECK_FALSE(equal(x, to(x, DType::f64)));
  CHECK_FALSE(equal(tensor({NAN}), tensor({NAN})));
  CHECK(equal(tensor({0.0}), tensor({-0.0})));
}

TEST_CASE("allclose follows its formula, infinities and NaN included") {
  const Tensor hundred = tensor({100}, DType::f64);
  CHECK(allclose(tensor({101}, DType::f64), hundred, 0.01, 0));
  CHECK_FALSE(allclose(tensor({101.001}, DType::f64), hundred, 0.01, 0));
  CHECK(allclose(tensor({101.5}, DType::f64), hundred, 0.01, 0.5));
  CHECK(allclose(tensor({INFINITY}), tensor({INFINITY})));
  CHECK_FALSE(allclose(tensor({-INFINITY}), tensor({INFINITY})));
  CHECK_FALSE(allclose(tensor({INFINITY}), tensor({1}), 1e9));
  CHECK_FALSE(allclose(tensor({1}), tensor({INFINITY}), 1e9));
  CHECK_FALSE(allclose(tensor({NAN}), tensor({NAN})));
  CHECK(allclose(tensor({NAN}), tensor({NAN}), 0, 0, true));
  CHECK_FALSE(allclose(tensor({NAN}), tensor({1}), 1e9, 1e9, true));
  check_throws(ErrorKind::shape, {"(2)", "(3)"}, [] { allclose(ones({2}), ones({3})); });
}

TEST_CASE("tensors print as their values, aligned, one row a line") {
  CHECK(to_string(tensor(3.25)) == "tensor(3.2500, f32)");
  CHECK(to_string(tensor({{1, 2}, {3, -40}})) ==
        "tensor([[  1,   2],\n"
        "        [  3, -40]], f32)");
  CHECK(to_string(tensor({NAN, INFINITY, -0.25}, DType::f64)) ==
        "tensor([    nan,     inf, -0.2500], f64)");
  CHECK(to_string(tensor({1e-9, 1})) == "tensor([1.0000e-09, 1.0000e+00], f32)");
  CHECK(to_string(tensor({0, 1}, DType::boolean)) == "tensor([false,  true], bool)");
  CHECK(to_string(transpose(tensor({{1, 2}, {3, 4}}, DType::i64), 0, 1)) ==
        "tensor([[1, 3],\n        [2, 4]], i64)");
  std::ostringstream out;
  out << tensor(3.25) << " of " << Shape{2, 3};
  CHECK(out.str() == "tensor(3.2500, f32) of (2, 3)");
  CHECK(to_string(zeros({1, 1, 1})) == "tensor([[[0]]], f32)");
  CHECK(to_string(zeros({1, 2, 0})) == "tensor([[[],\n         []]], f32 (1, 2, 0))");
  CHECK(to_string(zeros({1000000000, 0})).size() < 200);
  CHECK(to_string(ones({2, 1, 1})) == "tensor([[[1]],\n\n        [[1]]], f32)");
}

TEST_CASE("what has no or too many values prints its shape") {
  CHECK(to_string(zeros({0, 3})) == "tensor([], f32 (0, 3))");
  CHECK(to_string(arange(2000)) == "tensor([   0,    1,    2, ..., 1997, 1998, 1999], i64 (2000))");
  CHECK(to_string(zeros({500, 3})) ==
        "tensor([[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0],\n        ...,\n"
        "        [0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]], f32 (500, 3))");
  CHECK(to_string(Tensor()) == "tensor(undefined)");
  const DryRun dry_run;
  std::ostringstream out;
  out << zeros({2});
  CHECK(out.str() == "tensor(no values, f32 (2))");
}

TEST_CASE("parameter takes the result of an operation that worked in place of its argument") {
  CHECK(parameter(mul(randn({2, 2}), 0.1)).is_leaf());
  CHECK(parameter(tanh(randn({2, 2}))).is_leaf());
  CHECK(parameter(randn({2, 2}) * 0.1).is_leaf());
}
