#include <tapehead/nn/check.h>
#include <tapehead/nn/init.h>
#include <tapehead/nn/positions.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <bit>
#include <cmath>

namespace tapehead::nn {

namespace {

void check_even(const char* op, const char* name, std::int64_t value) {
  if (value < 1 || value % 2 != 0)
    throw ValueError(
        op, std::string(name) + " " + std::to_string(value) + " must be positive and even");
}

// Consecutive numbers from `first`, in f64.
Tensor places(std::int64_t count, std::int64_t first) {
  return add(arange(count, DType::f64), static_cast<double>(first));
}

// p * base^(-2i / dim) for positions p from offset on and i < dim / 2: (count, dim / 2), in f64.
Tensor angles(std::int64_t count, std::int64_t dim, std::int64_t offset, double base) {
  const Tensor positions = unsqueeze(places(count, offset), 1);
  const Tensor exponents = mul(places(dim / 2, 0), -2 * std::log(base) / static_cast<double>(dim));
  return positions * exp(exponents);
}

}  // namespace

// ---- added to the embeddings -------------------------------------------------------------------

Tensor sinusoidal_positions(std::int64_t count, std::int64_t dim, std::int64_t offset,
                            DType dtype) {
  constexpr const char* op = "sinusoidal_positions";
  check_not_negative(op, "count", count);
  check_not_negative(op, "offset", offset);
  check_even(op, "dim", dim);
  const Tensor angle = angles(count, dim, offset, 10000);
  const Tensor sines = sin(angle), cosines = cos(angle);
  return to(flatten(stack({sines, cosines}, -1), -2, -1), dtype);
}

namespace {

Tensor initial_weight(const LearnedPositionsOptions& options, Generator& generator) {
  check_positive("LearnedPositions", "max_positions", options.max_positions);
  check_positive("LearnedPositions", "dim", options.dim);
  return normal({options.max_positions, options.dim}, 0, options.deviation, options.dtype,
                generator);
}

}  // namespace

LearnedPositions::LearnedPositions(LearnedPositionsOptions options, Generator& generator)
    : weight(parameter(initial_weight(options, generator))), options_(options) {}

Tensor LearnedPositions::operator()(std::int64_t count, std::int64_t offset) const {
  const ModuleScope scope = enter();
  return narrow(weight, 0, offset, count);
}

void LearnedPositions::visit(Visitor& visitor) { visitor("weight", weight); }

std::string LearnedPositions::summary() const {
  return "LearnedPositions(" + std::to_string(options_.max_positions) + " x " +
         std::to_string(options_.dim) + ")";
}

// ---- rotary ------------------------------------------------------------------------------------

RotaryTable rotary_table(std::int64_t count, std::int64_t features, std::int64_t offset,
                         const RotaryOptions& options, DType dtype) {
  constexpr const char* op = "rotary_table";
  check_not_negative(op, "count", count);
  check_not_negative(op, "offset", offset);
  check_even(op, "features", features);
  if (!is_floating(dtype))
    throw DTypeError(op, "dtype " + std::string(to_string(dtype)) + " must be floating");
  if (!std::isfinite(options.base) || options.base <= 0)
    throw ValueError(op, "base " + format_number(options.base) + " must be finite and above 0");
  const Tensor angle = angles(count, features, offset, options.base);
  return {.cosines = to(cos(angle), dtype), .sines = to(sin(angle), dtype), .pairs = options.pairs};
}

namespace {

void check_table(const Tensor& x, const RotaryTable& table) {
  const bool fits = x.rank() >= 2 && table.cosines.defined() &&
                    table.cosines.shape() == Shape{x.size(-2), x.size(-1) / 2} &&
                    x.size(-1) % 2 == 0;
  if (!fits)
    throw ShapeError("rotate_positions",
                     "x " + describe(x) + " and a table " + describe(table.cosines) +
                         ": they must be (..., time, features) and (time, features / 2)");
  check_same_dtype("rotate_positions", x, table.cosines, "x", "table");
}

}  // namespace

Tensor rotate_positions(const Tensor& x, const RotaryTable& table) {
  check_defined("rotate_positions", "x", x);
  check_table(x, table);
  const std::int64_t half = x.size(-1) / 2;
  const bool adjacent = table.pairs == RotaryPairs::adjacent;
  // A dim that holds the pair: (..., T, E/2, 2) or (..., T, 2, E/2).
  const int pair_dim = adjacent ? -1 : -2;
  Shape paired = x.shape();
  paired[paired.rank() - 1] = adjacent ? half : 2;
  paired.push_back(adjacent ? 2 : half);
  const Tensor pairs = reshape(x, paired);
  const Tensor a = select(pairs, pair_dim, 0);
  const Tensor b = select(pairs, pair_dim, 1);
  Tensor a_turned = a * table.cosines;
  Tensor b_turned = b * table.cosines;
  const Tensor b_sines = b * table.sines;
  const Tensor a_sines = a * table.sines;
  a_turned = std::move(a_turned) - b_sines;
  b_turned = std::move(b_turned) + a_sines;
  return flatten(stack({a_turned, b_turned}, pair_dim), -2, -1);
}

// ---- ALiBi -------------------------------------------------------------------------------------

std::vector<double> alibi_slopes(std::int64_t heads) {
  check_positive("alibi_slopes", "heads", heads);
  const auto power = static_cast<double>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> slopes;
  for (double i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8 * i / power));
  for (double i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(std::exp2(-8 * i / (2 * power)));
  return slopes;
}

Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t offset,
                  DType dtype) {
  constexpr const char* op = "alibi_bias";
  check_positive(op, "heads", heads);
  check_not_negative(op, "queries", queries);
  check_not_negative(op, "keys", keys);
  check_not_negative(op, "offset", offset);
  const Tensor slopes = from_vector(alibi_slopes(heads), {heads, 1, 1}, DType::f64);
  const Tensor query = unsqueeze(places(queries, offset), 1);
  Tensor distance = query - places(keys, 0);
  distance = abs(std::move(distance));
  return to(mul(neg(std::move(distance)), slopes), dtype);
}

}  // namespace tapehead::nn
