// Random tensors, dropout and sampling.
#include "support/checks.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tapehead;
using tapehead::tests::check_throws;

namespace {

// One call of each random operation, more than a chunk of it.
std::vector<Tensor> draw_all(Generator& generator) {
  std::vector<Tensor> drawn;
  drawn.push_back(rand({20001}, DType::f32, generator));
  drawn.push_back(rand({20001}, DType::f64, generator));
  drawn.push_back(uniform({20001}, -3, 5, DType::f32, generator));
  drawn.push_back(randn({20001}, DType::f64, generator));
  drawn.push_back(randint(-5, 7, {20001}, generator));
  drawn.push_back(dropout(ones({20001}), 0.5, generator));
  drawn.push_back(multinomial(ones({9}), 100, true, generator));
  drawn.push_back(multinomial(ones({9}), 9, false, generator));
  return drawn;
}

bool all_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

double mean_of(const Tensor& x) { return mean(to(x, DType::f64)).item(); }

}  // namespace

TEST_CASE("THR-2 one seed gives one stream, whatever the number of threads") {
  Generator first(1);
  const std::vector<Tensor> drawn = draw_all(first);
  for (const int threads : {1, 2, 8}) {
    const ThreadBudget budget(threads);
    Generator again(1);
    CHECK(all_equal(draw_all(again), drawn));
    CHECK(again.state() == first.state());
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(equal(draw_all(first)[i], drawn[i]));
  }
}

TEST_CASE("a dry run moves the generator as the real run does") {
  Generator real(1), dry(1);
  draw_all(real);
  {
    const DryRun dry_run;
    draw_all(dry);
  }
  CHECK(dry.state() == real.state());
}

TEST_CASE("uniforms are the top bits of the stream's words") {
  Generator generator(7);
  const RandomState start = generator.state();
  const std::vector<double> f32 = rand({5}, DType::f32, generator).to_vector();
  for (std::uint64_t i = 0; i < 5; ++i)
    CHECK(f32[i] == (random_bits(7, start.offset + i) >> 8) * 0x1p-24);
  const RandomState middle = generator.state();
  CHECK(middle.offset % 4 == 0);
  const std::vector<double> f64 = rand({5}, DType::f64, generator).to_vector();
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::uint64_t high = random_bits(7, middle.offset + 2 * i);
    const std::uint64_t low = random_bits(7, middle.offset + 2 * i + 1);
    CHECK(f64[i] == static_cast<double>((high << 32 | low) >> 11) * 0x1p-53);
  }
}

TEST_CASE("uniforms and integers stay in their interval and fill it") {
  Generator generator(3);
  const std::vector<double> u = uniform({100000}, -3, 5, DType::f32, generator).to_vector();
  const auto [low, high] = std::minmax_element(u.begin(), u.end());
  CHECK(*low >= -3);
  CHECK(*low < -2.99);
  CHECK(*high < 5);
  CHECK(*high > 4.99);
  // 8 / sqrt(12 * 1e5) is the deviation of the mean; five of them.
  CHECK(std::abs(mean(from_vector(u, {100000})).item() - 1) < 5 * 8 / std::sqrt(12e5));

  const std::vector<std::int64_t> n = randint(-5, 7, {12000}, generator).to_vector<std::int64_t>();
  for (std::int64_t value = -5; value < 7; ++value)  // each 1000 times, deviation 30
    CHECK(std::abs(std::count(n.begin(), n.end(), value) - 1000) < 150);
  CHECK(std::count_if(n.begin(), n.end(), [](auto i) { return i < -5 || i >= 7; }) == 0);

  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> wide =
      randint(least, most, {100}, generator).to_vector<std::int64_t>();
  CHECK(std::count_if(wide.begin(), wide.end(), [](auto i) { return i < 0; }) > 20);
  CHECK(std::count_if(wide.begin(), wide.end(), [](auto i) { return i > 0; }) > 20);
  CHECK(equal(randint(4, 5, {3}, generator), full({3}, 4, DType::i64)));
  CHECK(equal(uniform({3}, 2, 2, DType::f64, generator), full({3}, 2, DType::f64)));
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  Generator generator(3);
  constexpr double count = 200001;  // odd: the last pair is cut
  const Tensor x = randn({200001}, DType::f64, generator);
  const Tensor square = mul(x, x);
  // Five deviations each: the variances of x, x^2 and x^4 are 1, 2 and 96.
  CHECK(std::abs(mean(x).item()) < 5 * std::sqrt(1 / count));
  CHECK(std::abs(mean(square).item() - 1) < 5 * std::sqrt(2 / count));
  CHECK(std::abs(mean(mul(square, square)).item() - 3) < 5 * std::sqrt(96 / count));
  // Neighbours come from one pair, and must not go together.
  const Tensor products = mul(narrow(x, 0, 0, 200000), narrow(x, 0, 1, 200000));
  CHECK(std::abs(mean(products).item()) < 5 * std::sqrt(1 / count));
  Generator again(3);
  CHECK(equal(randn({200001}, DType::f32, again), to(x, DType::f32)));
}

TEST_CASE("arguments of random tensors that make no sense are errors, and draw nothing") {
  Generator generator(1);
  check_throws(ErrorKind::value, {"uniform"}, [&] { uniform({2}, 1, 0, DType::f32, generator); });
  check_throws(ErrorKind::value, {"uniform"},
               [&] { uniform({2}, 0, INFINITY, DType::f32, generator); });
  check_throws(ErrorKind::value, {"randint"}, [&] { randint(3, 3, {2}, generator); });
  check_throws(ErrorKind::dtype, {"rand", "i64"}, [&] { rand({2}, DType::i64, generator); });
  check_throws(ErrorKind::value, {"negative"}, [&] { randn({-2}, DType::f32, generator); });
  CHECK(generator.state() == Generator(1).state());
}

TEST_CASE("DROP-1 the gradient goes through the mask of the forward pass, at every order") {
  Tape tape;
  const Tensor x = parameter(ones({1000}, DType::f64));
  const Tensor y = dropout(mul(x, x), 0.5);
  const Gradients first = tape.gradient(y, {x}, ones({1000}, DType::f64), {.create_graph = true});
  CHECK(equal(first[x].detach(), y.detach() * 2));
  CHECK(equal(tape.gradient(first[x], {x}, ones({1000}, DType::f64))[x], y.detach() * 2));
  CHECK(tape.graph().saved.size() ==
        4);  // mul's operands, here and in its rule; dropout saves none
}

TEST_CASE("DROP-2 dropout at p = 0, 1, between and outside") {
  const Tensor x = parameter(tensor({1, 2}, DType::f64));
  Generator generator(1);
  {
    Tape tape;
    const Tensor y = dropout(x, 1, generator);
    CHECK(equal(y, zeros({2}, DType::f64)));
    CHECK(equal(tape.gradient(y, {x}, ones({2}, DType::f64))[x], zeros({2}, DType::f64)));
  }
  const RandomState before = generator.state();
  CHECK(dropout(x, 0, generator).is_same(x));
  CHECK(generator.state() == before);
  const std::vector<double> kept = dropout(ones({1000}, DType::f64), 0.3, generator).to_vector();
  for (const double value : kept) CHECK((value == 0 || value == 1 / (1 - 0.3)));
  for (const double p : {-0.1, 1.5, static_cast<double>(NAN)})
    check_throws(ErrorKind::value, {"dropout", "[0, 1]"}, [&] { dropout(x, p, generator); });
}

TEST_CASE("DROP-3 a dropped infinity is gone") {
  const std::vector<double> y = dropout(full({100}, INFINITY), 0.5).to_vector();
  const auto zeros = std::count(y.begin(), y.end(), 0.0);
  const auto infinities = std::count(y.begin(), y.end(), INFINITY);
  CHECK(zeros + infinities == 100);
  CHECK(std::abs(zeros - 50) < 25);  // five deviations
}

TEST_CASE(
    "dropout keeps the expected value, and its mask follows the logical order of any layout") {
  Generator generator(5);
  const RandomState start = generator.state();
  const Tensor y = dropout(ones({300, 100}), 0.2, generator);
  CHECK(std::abs(mean_of(y) - 1) < 5 * std::sqrt(0.2 / 0.8 / 30000));
  generator.set_state(start);
  const Tensor strided = transpose(ones({100, 300}), 0, 1);
  CHECK(equal(dropout(strided, 0.2, generator), y));
  CHECK(equal(replay_dropout(expand(ones({}), {300, 100}), 0.2, start), y));
}

TEST_CASE("multinomial draws by probability, never what has none") {
  Generator generator(2);
  const Tensor weights = tensor({{1, 0, 3}, {0, 5, 0}});
  const Tensor drawn = multinomial(weights, 4000, true, generator);
  const std::vector<std::int64_t> first = select(drawn, 0, 0).to_vector<std::int64_t>();
  CHECK(std::count(first.begin(), first.end(), 1) == 0);
  CHECK(std::abs(std::count(first.begin(), first.end(), 2) - 3000) <
        5 * std::sqrt(4000 * 0.75 * 0.25));
  CHECK(equal(select(drawn, 0, 1), ones({4000}, DType::i64)));
  CHECK(multinomial(weights, 0, false, generator).shape() == Shape{2, 0});
}

TEST_CASE("multinomial without replacement: no position twice, the first by probability") {
  Generator generator(4);
  std::vector<std::int64_t> all =
      multinomial(ones({50}), 50, false, generator).to_vector<std::int64_t>();
  std::sort(all.begin(), all.end());
  CHECK(all == arange(50).to_vector<std::int64_t>());
  const Tensor weights = repeat(tensor({{1, 2, 7}}), {4000, 1});
  const Tensor drawn = multinomial(weights, 2, false, generator);
  const std::vector<std::int64_t> first = select(drawn, 1, 0).to_vector<std::int64_t>();
  CHECK(std::abs(std::count(first.begin(), first.end(), 2) - 2800) <
        5 * std::sqrt(4000 * 0.7 * 0.3));
  // The second is 2 when the first was 0 (0.1 * 7/9) or 1 (0.2 * 7/8).
  const std::vector<std::int64_t> second = select(drawn, 1, 1).to_vector<std::int64_t>();
  const double p = 0.1 * 7 / 9 + 0.2 * 7 / 8;
  CHECK(std::abs(static_cast<double>(std::count(second.begin(), second.end(), 2)) - 4000 * p) <
        5 * std::sqrt(4000 * p * (1 - p)));
}

TEST_CASE("multinomial rejects what is no probability") {
  check_throws(ErrorKind::value, {"-1"}, [] { multinomial(tensor({1, -1}), 1); });
  check_throws(ErrorKind::value, {"nan"}, [] { multinomial(tensor({1, NAN}), 1); });
  check_throws(ErrorKind::value, {"inf"}, [] { multinomial(tensor({1, INFINITY}), 1); });
  check_throws(ErrorKind::value, {"0 positive"}, [] { multinomial(tensor({0, 0}), 1, true); });
  check_throws(ErrorKind::value, {"without"}, [] { multinomial(tensor({1, 0, 3}), 3); });
  check_throws(ErrorKind::value, {"without"}, [] { multinomial(ones({3}), 4); });
  check_throws(ErrorKind::value, {"-1 samples"}, [] { multinomial(ones({3}), -1, true); });
  check_throws(ErrorKind::shape, {"(2, 2, 2)"}, [] { multinomial(ones({2, 2, 2}), 1); });
  check_throws(ErrorKind::dtype, {"i64"}, [] { multinomial(ones({2}, DType::i64), 1); });
}
