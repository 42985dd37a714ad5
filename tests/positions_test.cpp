// Positions: sinusoidal, learned, rotary and ALiBi, against their papers' formulas and by hand.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/tensors.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/nn/attention.h>
#include <tapehead/nn/positions.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <complex>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::f64;
using tests::noise;

namespace {

using Values = std::vector<double>;

// x (T, E) turned as complex numbers: a + bi times e^(i p base^(-2k/E)) for pair k at position p.
Tensor turned_by_hand(const Tensor& x, std::int64_t offset, double base, RotaryPairs pairs) {
  const auto rows = static_cast<std::size_t>(x.size(0)),
             half = static_cast<std::size_t>(x.size(1)) / 2;
  const Values in = x.to_vector();
  Values out(in.size());
  for (std::size_t t = 0; t < rows; ++t) {
    for (std::size_t k = 0; k < half; ++k) {
      const bool adjacent = pairs == RotaryPairs::adjacent;
      const std::size_t row = 2 * half * t;
      const std::size_t a = row + (adjacent ? 2 * k : k), b = adjacent ? a + 1 : a + half;
      const double frequency = std::pow(base, -static_cast<double>(k) / static_cast<double>(half));
      const double angle = static_cast<double>(offset + static_cast<std::int64_t>(t)) * frequency;
      const std::complex<double> y = std::complex(in[a], in[b]) * std::polar(1.0, angle);
      out[a] = y.real();
      out[b] = y.imag();
    }
  }
  return from_vector(out, x.shape());
}

// The angles of both ways differ by a rounding of exp and of pow, times the position.
constexpr double roundings = 1e-13;

}  // namespace

// ---- added to the embeddings -------------------------------------------------------------------

TEST_CASE("sinusoidal positions: sines and cosines of the position over growing wave lengths") {
  const Values y = sinusoidal_positions(3, 4, 0, DType::f64).to_vector();
  const Values expected = {0,
                           1,
                           0,
                           1,
                           std::sin(1.0),
                           std::cos(1.0),
                           std::sin(0.01),
                           std::cos(0.01),
                           std::sin(2.0),
                           std::cos(2.0),
                           std::sin(0.02),
                           std::cos(0.02)};
  for (std::size_t i = 0; i < 12; ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("sinusoidal positions from an offset on are the same rows, and f32 rounds f64 once") {
  const Tensor whole = sinusoidal_positions(9, 6, 0, DType::f64);
  CHECK(equal(sinusoidal_positions(4, 6, 5, DType::f64), narrow(whole, 0, 5, 4)));
  CHECK(equal(sinusoidal_positions(9, 6), to(whole, DType::f32)));
  const double far = sinusoidal_positions(1, 2, 100003, DType::f64).to_vector()[0];
  CHECK(far ==
        doctest::Approx(std::sin(100003.0)).epsilon(1e-12));  // an angle in f32 is off by 4e-3
}

TEST_CASE("learned positions are rows of a parameter, a view, with gradient where they were used") {
  Generator generator(1);
  const LearnedPositions positions({.max_positions = 5, .dim = 3, .dtype = DType::f64}, generator);
  CHECK(positions.state_dict().front().name == "weight");
  Tape tape;
  const Tensor rows = positions(2, 1);
  CHECK(rows.storage() == positions.weight.storage());
  CHECK(equal(rows, narrow(positions.weight, 0, 1, 2)));
  const Tensor upstream = noise({2, 3}, 2);
  const Tensor g = tape.gradient(rows, {positions.weight}, upstream)[positions.weight];
  CHECK(equal(g, cat({zeros({1, 3}, DType::f64), upstream, zeros({2, 3}, DType::f64)}, 0)));
  check_throws(ErrorKind::index, {"narrow"}, [&] { positions(2, 4); });
}

// ---- rotary ------------------------------------------------------------------------------------

TEST_CASE("rotary positions turn each pair of features by position times its frequency") {
  const Tensor x = f64({{1, 0, 1, 0}, {1, 0, 1, 0}, {1, 0, 0, 2}});
  const RotaryTable table = rotary_table(3, 4, 0, {}, DType::f64);
  const Values y = rotate_positions(x, table).to_vector();
  const Values expected = {1,
                           0,
                           1,
                           0,
                           std::cos(1.0),
                           std::sin(1.0),
                           std::cos(0.01),
                           std::sin(0.01),
                           std::cos(2.0),
                           std::sin(2.0),
                           -2 * std::sin(0.02),
                           2 * std::cos(0.02)};
  for (std::size_t i = 0; i < 12; ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("rotary positions are products of complex numbers, for both layouts of the pairs") {
  const Tensor x = noise({5, 6}, 1);
  for (const RotaryPairs pairs : {RotaryPairs::adjacent, RotaryPairs::halves}) {
    const RotaryOptions options{.base = 500, .pairs = pairs};
    const Tensor y = rotate_positions(x, rotary_table(5, 6, 7, options, DType::f64));
    CHECK(allclose(y, turned_by_hand(x, 7, 500, pairs), roundings, roundings));
  }
}

TEST_CASE("rotary positions of heads, and of strided views, are those of each head by itself") {
  const RotaryTable table = rotary_table(4, 2, 3, {}, DType::f64);
  const Tensor heads = split_heads(noise({2, 4, 6}, 1), 3);
  const Tensor y = rotate_positions(heads, table);
  CHECK(y.shape() == Shape{2, 3, 4, 2});
  for (const int n : {0, 1})
    for (const int h : {0, 1, 2})
      CHECK(equal(select(select(y, 0, n), 0, h),
                  rotate_positions(select(select(heads, 0, n), 0, h), table)));
}

TEST_CASE("the product of a turned query with a turned key depends on their distance only") {
  const Tensor q = noise({1, 8}, 1), k = noise({1, 8}, 2);
  for (const RotaryPairs pairs : {RotaryPairs::adjacent, RotaryPairs::halves}) {
    const auto score = [&](std::int64_t query_at, std::int64_t key_at) {
      const auto turned = [&](const Tensor& x, std::int64_t at) {
        return rotate_positions(x, rotary_table(1, 8, at, {.pairs = pairs}, DType::f64));
      };
      const Tensor turned_q = turned(q, query_at), turned_k = turned(k, key_at);
      return matmul(turned_q, transpose(turned_k, 0, 1)).item();
    };
    CHECK(score(5, 3) == doctest::Approx(score(102, 100)).epsilon(1e-12));
    CHECK(std::abs(score(5, 3) - score(5, 4)) > 1e-3);
    CHECK(std::abs(score(5, 3) - score(3, 5)) > 1e-3);
  }
}

TEST_CASE("rotary positions have gradients of both orders, and save the table alone") {
  for (const RotaryPairs pairs : {RotaryPairs::adjacent, RotaryPairs::halves}) {
    const RotaryTable table = rotary_table(3, 4, 2, {.pairs = pairs}, DType::f64);
    const auto f = [&](const std::vector<Tensor>& in) { return rotate_positions(in[0], table); };
    const std::vector<Tensor> inputs = {noise({2, 3, 4}, 1)};
    check_first_order(f, inputs);
    check_second_order(f, inputs);
    const Tensor x = parameter(noise({2, 3, 4}, 1));
    Tape tape;
    const Tensor y = rotate_positions(x, table);
    CHECK(tape.graph().saved_activation_bytes() == 2 * 3 * 2 * 8);  // cosines and sines, (3, 2)
  }
}

TEST_CASE("a table that does not fit, and options that cannot be, are errors") {
  const RotaryTable table = rotary_table(3, 4);
  const auto rejects = [&](ErrorKind kind, const Shape& shape, DType dtype) {
    check_throws(kind, {"rotate_positions", to_string(shape)},
                 [&] { rotate_positions(zeros(shape, dtype), table); });
  };
  rejects(ErrorKind::shape, {2, 4}, DType::f32);
  rejects(ErrorKind::shape, {3, 6}, DType::f32);
  rejects(ErrorKind::shape, {3, 5}, DType::f32);
  rejects(ErrorKind::shape, {4}, DType::f32);
  rejects(ErrorKind::dtype, {3, 4}, DType::f64);
  check_throws(ErrorKind::value, {"features 5"}, [] { rotary_table(3, 5); });
  check_throws(ErrorKind::value, {"offset -1"}, [] { rotary_table(3, 4, -1); });
  check_throws(ErrorKind::value, {"base 0"}, [] { rotary_table(3, 4, 0, {.base = 0}); });
  check_throws(ErrorKind::value, {"dim 3"}, [] { sinusoidal_positions(2, 3); });
  check_throws(ErrorKind::value, {"count -2"}, [] { sinusoidal_positions(-2, 4); });
  check_throws(ErrorKind::value, {"max_positions 0"}, [] { LearnedPositions({.dim = 2}); });
}

TEST_CASE("tables are planned by a dry run of any length without computing them") {
  const DryRun dry;
  constexpr std::int64_t long_time = std::int64_t{1} << 40;
  CHECK(rotary_table(long_time, 8).cosines.shape() == Shape{long_time, 4});
  CHECK(sinusoidal_positions(long_time, 8).shape() == Shape{long_time, 8});
}

// ---- ALiBi -------------------------------------------------------------------------------------

TEST_CASE("ALiBi's slopes, for a power of 2 and for what is none") {
  CHECK(alibi_slopes(1) == Values{1.0 / 256});
  CHECK(alibi_slopes(2) == Values{1.0 / 16, 1.0 / 256});
  CHECK(alibi_slopes(8) ==
        Values{1 / 2., 1 / 4., 1 / 8., 1 / 16., 1 / 32., 1 / 64., 1 / 128., 1 / 256.});
  // Those of 2 heads, then the first of 4; those of 8, then every other one of 16.
  CHECK(alibi_slopes(3) == Values{1.0 / 16, 1.0 / 256, 1.0 / 4});
  const Values twelve = alibi_slopes(12);
  REQUIRE(twelve.size() == 12);
  for (std::size_t i = 0; i < 8; ++i) CHECK(twelve[i] == alibi_slopes(8)[i]);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(twelve[8 + i] == std::exp2(-0.5 - static_cast<double>(i)));
  check_throws(ErrorKind::value, {"heads 0"}, [] { alibi_slopes(0); });
}

TEST_CASE("ALiBi's bias is minus slope times distance, also for queries at an offset") {
  CHECK(alibi_bias(2, 2, 3, 1, DType::f64).to_vector() ==
        Values{-1 / 16., 0, -1 / 16., -2 / 16., -1 / 16., 0,  //
               -1 / 256., 0, -1 / 256., -2 / 256., -1 / 256., 0});
  const Tensor whole = alibi_bias(3, 5, 5, 0, DType::f64);
  CHECK(equal(alibi_bias(3, 2, 5, 3, DType::f64), narrow(whole, 1, 3, 2)));
  check_throws(ErrorKind::value, {"keys -1"}, [] { alibi_bias(2, 2, -1); });
}

TEST_CASE("attention of equal scores under ALiBi favours near keys, by powers of 2 a step") {
  const Tensor q = zeros({1, 3, 1}, DType::f64), bias = alibi_bias(1, 3, 3, 0, DType::f64);
  // A scale of 256 ln 2 on the slope of one head, 1/256, makes each step a factor of 2.
  const Values weights =
      attention_weights(q, q, {.mask = Mask::causal(), .bias = mul(bias, 256 * std::log(2.0))})
          .to_vector();
  const Values expected = {1, 0, 0, 1 / 3., 2 / 3., 0, 1 / 7., 2 / 7., 4 / 7.};
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(weights[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}
