// What matmul, linear and einsum promise beyond the table of operation cases.
#include "support/checks.h"
#include "support/names.h"

#include <tapehead/core/count.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <limits>

using namespace tapehead;
using tests::check_throws;
using tests::operations;

namespace {

using Values = std::vector<double>;

Tensor f64(const Values& values, const Shape& shape) { return from_vector(values, shape); }
Tensor ones64(const Shape& shape) { return ones(shape, DType::f64); }

// Live bytes at the peak of `run`, above those at its start.
template <class F>
std::int64_t extra_bytes(F&& run) {
  const std::int64_t before = memory_stats().live;
  reset_peak();
  run();
  return memory_stats().peak - before;
}

}  // namespace

// ---- matmul -------------------------------------------------------------------------------------

TEST_CASE("a scale of 0 makes zeros of numbers and hides no NaN, whatever the shapes") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor a = tensor({{nan, 1}, {2, 3}}, dtype);
    for (const Tensor& b :
         {tensor({1, 2}, dtype), tensor({{1}, {2}}, dtype), tensor({{1, 2}, {3, 4}}, dtype)}) {
      const std::vector<double> y = matmul(a, b, {.scale = 0}).to_vector();
      for (std::size_t i = 0; i < y.size(); ++i)
        CHECK((i < y.size() / 2 ? std::isnan(y[i]) : y[i] == 0));
    }
  }
  const Tensor x = parameter(ones({2, 3}));
  Tape tape;
  const Tensor y = matmul(x, ones({3, 2}), {.scale = 0});
  CHECK(equal(tape.gradient(y, {x}, ones({2, 2}))[x], zeros({2, 3})));
}

TEST_CASE("BCAST-4 a mean that keeps its dim feeds a matmul") {
  const Tensor t = parameter(ones64({2, 3}));
  Tape tape;
  const Tensor m = mean(t, {0}, true);
  const Tensor p = matmul(m, full({3, 1}, 10, DType::f64));
  const Gradients g = tape.gradient(p, {t, m});
  CHECK(p.item() == 30);
  CHECK(equal(g[m], full({1, 3}, 10, DType::f64)));
  CHECK(equal(g[t], full({2, 3}, 5, DType::f64)));
}

TEST_CASE("INPL-3 expanded operands of matmul and einsum") {
  for (const bool by_einsum : {false, true}) {
    CAPTURE(by_einsum);
    const Tensor x0 = parameter(f64({1, 2}, {1, 2}));
    const Tensor w = parameter(f64({1, 2, 3, 4}, {2, 2}));
    Tape tape;
    const Tensor x = expand(x0, {2, 2});
    const Tensor y = by_einsum ? einsum("...x,xy->...y", {x, w}) : matmul(x, w);
    const Gradients g = tape.gradient(y, {x0, w}, ones64({2, 2}));
    CHECK(y.to_vector() == Values{7, 10, 7, 10});
    CHECK(g[x0].to_vector() == Values{6, 14});
    CHECK(g[w].to_vector() == Values{2, 2, 4, 4});
  }
}

TEST_CASE("VIEW-1 transposed operand, transposed upstream gradient") {
  const Tensor a = parameter(f64({1, 2, 3, 4, 5, 6}, {2, 3}));
  const Tensor b = parameter(f64({1, 0, 0, 2}, {2, 2}));
  const Tensor upstream = transpose(f64({1, 3, 5, 2, 4, 6}, {2, 3}), 0, 1);
  Tape tape;
  const Tensor y = matmul(transpose(a, 0, 1), b);
  const Gradients g = tape.gradient(y, {a, b}, upstream);
  CHECK(y.to_vector() == Values{1, 8, 2, 10, 3, 12});
  CHECK(g[a].to_vector() == Values{1, 3, 5, 4, 8, 12});
  CHECK(g[b].to_vector() == Values{22, 28, 49, 64});
}

TEST_CASE("ZERO-1 an inner dim of size 0 gives zeros, whatever the memory held") {
  for (const auto& [a_shape, b_shape, y_shape] :
       {std::tuple{Shape{2, 0}, Shape{0, 3}, Shape{2, 3}},
        std::tuple{Shape{3, 2, 0}, Shape{3, 0, 3}, Shape{3, 2, 3}}}) {
    full(y_shape, std::numeric_limits<double>::quiet_NaN(), DType::f64);  // freed at once
    const Tensor a = parameter(zeros(a_shape, DType::f64));
    const Tensor b = parameter(zeros(b_shape, DType::f64));
    Tape tape;
    const Tensor y = matmul(a, b);
    CHECK(equal(y, zeros(y_shape, DType::f64)));
    const Gradients g = tape.gradient(y, {a, b}, ones64(y_shape));
    CHECK(g[a].shape() == a_shape);
    CHECK(g[b].shape() == b_shape);
  }
}

TEST_CASE("SIZE-2 a result that memory cannot hold is an error, and the next product works") {
  const std::int64_t live = memory_stats().live;
  {
    const Tensor column = ones({std::int64_t{1} << 23, 1});
    const Tensor row = ones({1, std::int64_t{1} << 23});
    check_throws(ErrorKind::out_of_memory, {"matmul", "281474976710656 bytes"},
                 [&] { matmul(column, row); });
    CHECK(matmul(row, column).item() == 1 << 23);
  }
  CHECK(memory_stats().live == live);
}

TEST_CASE("SIZE-3 dry run of a product that would not fit") {
  const DryRun dry;
  const Tensor a = parameter(empty("test", {65536, 65536}, DType::f32));
  const Tensor b = parameter(empty("test", {65536, 65536}, DType::f32));
  Tape tape;
  const Tensor y = matmul(a, b);
  CHECK(y.shape() == Shape{65536, 65536});
  CHECK(y.numel() == 4294967296);
  CHECK(y.storage()->bytes() == 17179869184);
  CHECK(tape.graph().saved_bytes() == 34359738368);
  CHECK(tape.graph().nodes[0].flops == 562949953421312);
}

TEST_CASE("floating-point operations that do not fit in 63 bits are the largest count, no other") {
  const DryRun dry;
  const std::int64_t n = std::int64_t{1} << 24;
  const Tensor a = parameter(empty("test", {n, n}, DType::f32));
  const Tensor row = parameter(empty("test", {1, 1, 1, n}, DType::f32));
  const auto check = [](const char* operation, const Tensor& y, Tape& tape) {
    CAPTURE(operation);
    REQUIRE(y.defined());
    CHECK(tape.graph().nodes.back().flops == largest_count);
    CHECK(tape.flops() == largest_count);
  };
  {
    Tape tape;
    const Tensor y = matmul(a, a);
    check("matmul", y, tape);
    const Tensor sum = matmul(y, a);  // two of them
    check("matmul", sum, tape);
  }
  {
    Tape tape;
    check("linear", linear(a, a), tape);
  }
  {
    Tape tape;
    const Tensor wide = expand(row, {1, 1, n, n});
    check("fused_attention", fused_attention(wide, wide, wide), tape);
  }
  Tape tape;  // two that fit, and their sum, which does not
  const std::int64_t m = std::int64_t{1} << 20;
  const Tensor b = parameter(empty("test", {m, 2 * m}, DType::f32));
  const Tensor first = matmul(b, transpose(b, 0, 1));
  CHECK(tape.flops() == std::int64_t{1} << 62);
  const Tensor second = matmul(b, transpose(b, 0, 1));
  CHECK(tape.flops() == largest_count);
}

TEST_CASE("joined sizes that do not fit in 63 bits are an error that names cat") {
  const Tensor wide = expand(zeros({1}, DType::boolean), {std::int64_t{1} << 62});
  check_throws(ErrorKind::out_of_memory, {"cat"}, [&] { cat({wide, wide}); });
  check_throws(ErrorKind::out_of_memory, {"cat"}, [&] { cat({wide, wide, wide}); });
}

TEST_CASE("errors of products name operands, full shapes and the rule, and hint at a transpose") {
  const Tensor a = ones({2, 3});
  check_throws(ErrorKind::shape,
               {"matmul", "a f32 (2, 3)", "b f32 (4, 3)", "3 and 4", "transposed"}, [&] {
                 matmul(a, ones({4, 3}));
               });
  check_throws(ErrorKind::shape, {"matmul", "(2, 2, 3)", "(3, 3, 3)", "leading dims", "2 and 3"},
               [&] {
                 matmul(ones({2, 2, 3}), ones({3, 3, 3}));
               });
  check_throws(ErrorKind::dtype, {"matmul", "one dtype"}, [&] { matmul(a, ones64({3, 2})); });
  check_throws(ErrorKind::dtype, {"matmul", "floating"}, [&] {
    matmul(a, ones({3, 2}, DType::i64));
  });
  check_throws(ErrorKind::shape, {"bmm", "batch"}, [&] { bmm(ones({2, 2, 3}), ones({1, 3, 2})); });
  check_throws(ErrorKind::shape, {"linear", "x f32 (2, 3)", "weight f32 (3, 4)", "transposed"},
               [&] {
                 linear(a, ones({3, 4}));
               });
}

TEST_CASE("the scale of a matmul is an attribute, and its flops count all matrices of the batch") {
  const Tensor a = parameter(ones64({4, 1, 2, 3}));
  Tape tape;
  const Tensor y = matmul(a, ones64({5, 3, 7}), {.scale = 0.25});
  CHECK(y.to_vector() == Values(4 * 5 * 2 * 7, 0.75));
  const Graph graph = tape.graph();
  CHECK(graph.nodes[0].attributes == std::vector<Graph::Attribute>{{"scale", 0.25}});
  CHECK(graph.nodes[0].flops == 2 * 4 * 5 * 2 * 3 * 7);
}

// ---- what gradients cost ------------------------------------------------------------------------

TEST_CASE("a weight used twice has one gradient buffer: the second product is added into it") {
  const Tensor w = parameter(ones64({64, 64}));
  const auto bytes = static_cast<std::int64_t>(w.storage()->bytes());
  for (const bool by_linear : {false, true}) {
    CAPTURE(by_linear);
    Tape tape;
    const auto layer = [&](const Tensor& x) { return by_linear ? linear(x, w) : matmul(x, w); };
    const Tensor y = layer(layer(ones64({1, 64})));
    Tensor dw;
    CHECK(extra_bytes([&] { dw = tape.gradient(y, {w}, ones64({1, 64}))[w]; }) < bytes * 3 / 2);
    CHECK(equal(dw, full({64, 64}, 128, DType::f64)));
  }
}

TEST_CASE(
    "the gradient of a shared weight is one product, without a product for each of the batch") {
  const Tensor w = parameter(ones64({32, 32}));
  Tape tape;
  const Tensor y = matmul(ones64({20, 2, 32}), w);
  const Tensor seed = ones64(y.shape());
  Tensor dw;
  CHECK(extra_bytes([&] { dw = tape.gradient(y, {w}, seed)[w]; }) <
        2 * static_cast<std::int64_t>(w.storage()->bytes()));
  CHECK(equal(dw, full({32, 32}, 40, DType::f64)));
}

TEST_CASE("gradients of split heads merge back without a copy") {
  const Tensor x = parameter(ones64({2, 16, 32}));
  Tape tape;
  const Tensor heads = permute(reshape(x, {2, 16, 4, 8}), {0, 2, 1, 3});
  const Tensor y = matmul(heads, ones64({8, 1}));
  const Tensor seed = ones64(y.shape());
  Tensor dx;
  CHECK(extra_bytes([&] { dx = tape.gradient(y, {x}, seed)[x]; }) <
        static_cast<std::int64_t>(x.storage()->bytes()) * 3 / 2);
  CHECK(equal(dx, ones64({2, 16, 32})));
}

// ---- einsum -------------------------------------------------------------------------------------

TEST_CASE("EINS-1 diagonals and traces") {
  const Tensor a = parameter(f64({1, 2, 3, 4}, {2, 2}));
  Tape tape;
  const Tensor trace = einsum("ii->", {a});
  CHECK(trace.item() == 5);
  CHECK(tape.gradient(trace, {a})[a].to_vector() == Values{1, 0, 0, 1});
  const Tensor diagonal = einsum("ii->i", {a});
  CHECK(diagonal.to_vector() == Values{1, 4});
  CHECK(tape.gradient(diagonal, {a}, f64({10, 20}, {2}))[a].to_vector() == Values{10, 0, 0, 20});
}

TEST_CASE("EINS-2 an index that only one operand has") {
  const Tensor a = parameter(f64({1, 2, 3, 4}, {2, 2}));
  const Tensor v = parameter(f64({5, 6, 7}, {3}));
  Tape tape;
  const Tensor y = einsum("ij,k->i", {a, v});
  CHECK(y.to_vector() == Values{54, 126});
  const Gradients g = tape.gradient(y, {a, v}, ones64({2}));
  CHECK(g[a].to_vector() == Values{18, 18, 18, 18});
  CHECK(g[v].to_vector() == Values{10, 10, 10});
}

TEST_CASE("EINS-3 size 1 against size n broadcasts") {
  const Tensor x = parameter(f64({2, 2}, {2}));
  const Tensor y = parameter(f64({2}, {1}));
  Tape tape;
  const Tensor product = einsum("i,i->", {x, y});
  CHECK(product.item() == 8);
  const Gradients g = tape.gradient(product, {x, y});
  CHECK(g[x].to_vector() == Values{2, 2});
  CHECK(g[y].to_vector() == Values{4});
  CHECK(g[y].shape() == Shape{1});
}

TEST_CASE("EINS-4 an ellipsis of rank 2, or of none") {
  const Tensor a = parameter(f64({0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 2}));
  const Tensor v = parameter(f64({1, 10}, {2}));
  Tape tape;
  const Tensor y = einsum("i...,i->...", {a, v});
  CHECK(y.to_vector() == Values{40, 51, 62, 73});
  const Gradients g = tape.gradient(y, {a, v}, ones64({2, 2}));
  CHECK(g[a].to_vector() == Values{1, 1, 1, 1, 10, 10, 10, 10});
  CHECK(g[v].to_vector() == Values{6, 22});
  CHECK(einsum("...i,i", {a, v}).to_vector() == Values{10, 32, 54, 76});
  CHECK(einsum("...i,i", {v, v}).item() == 101);
  CHECK(einsum("...i->i", {a}).to_vector() == Values{12, 16});
}

TEST_CASE("a contraction of strided heads is two views and one matmul") {
  const Tensor q = parameter(ones64({2, 5, 3, 4})), k = parameter(ones64({2, 6, 3, 4}));
  Tape tape;
  const Tensor scores = einsum("bqhd,bkhd->bhqk", {q, k});
  CHECK(scores.shape() == Shape{2, 3, 5, 6});
  CHECK(operations(tape.graph()) == std::vector<std::string>{"permute", "permute", "matmul"});
}

TEST_CASE("malformed equations are value errors, sizes that do not fit shape errors") {
  const Tensor a = ones64({2, 3});
  for (const char* equation : {"ij->ik", "ij->ii", "i1->i", "i.j->ij", "i..j", "...i...->i",
                               "ij->i,j", "ij->i->j", "ij-", "ij>i", "ij,jk->ik", "->ij"})
    check_throws(ErrorKind::value, {"einsum", equation}, [&] { einsum(equation, {a}); });
  check_throws(ErrorKind::value, {"einsum"}, [&] { einsum("", {}); });
  check_throws(ErrorKind::shape, {"einsum", "(2, 3)"}, [&] { einsum("i->i", {a}); });
  check_throws(ErrorKind::shape, {"einsum", "(2, 3)"}, [&] { einsum("ijk...->i", {a}); });
  check_throws(ErrorKind::shape, {"einsum", "index i"}, [&] { einsum("ii->i", {a}); });
  check_throws(ErrorKind::shape, {"einsum", "repeated index i"}, [&] {
    einsum("ii->i", {ones64({1, 3})});
  });
  check_throws(ErrorKind::shape, {"einsum", "ellipsis"}, [&] {
    einsum("...i,...i", {a, ones64({4, 3})});
  });
  check_throws(ErrorKind::dtype, {"einsum", "t1"}, [&] { einsum("ij,ij", {a, ones({2, 3})}); });
}
