#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/kernels/random.h>
#include <tapehead/ops/random.h>

#include <cmath>

namespace tapehead {
namespace {

std::uint64_t count_of(const Tensor& x) { return static_cast<std::uint64_t>(x.numel()); }

Tensor empty_floating(const char* operation, const Shape& shape, DType dtype) {
  if (!is_floating(dtype))
    throw DTypeError(operation, std::string(to_string(dtype)) + " is not floating (f32 or f64)");
  check_computes(operation, "what is drawn", dtype);
  return empty(operation, shape, dtype);
}

Tensor uniform_in(const char* operation, const Shape& shape, double low, double high, DType dtype,
                  Generator& generator) {
  Tensor y = empty_floating(operation, shape, dtype);
  const RandomState state = generator.take(count_of(y) * kernels::words_of_uniform(dtype));
  launch([&] { kernels::uniform(y.view(), state, low, high); });
  return y;
}

// ---- dropout ------------------------------------------------------------------------------------

struct DropoutNode final : Node {
  DropoutNode() : Node("dropout") {}
  RandomState state;
  double p = 0;
  // Dropout is linear in x, so its gradient is the same dropout of g.
  Grads backward(Tensor g, const Wanted&) override {
    return {replay_dropout(std::move(g), p, state)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"p", p},
            {"key", static_cast<std::int64_t>(state.key)},
            {"offset", static_cast<std::int64_t>(state.offset)}};
  }
};

}  // namespace

Tensor rand(const Shape& shape, DType dtype, Generator& generator) {
  return uniform_in("rand", shape, 0, 1, dtype, generator);
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Generator& generator) {
  if (!(low <= high) || !std::isfinite(high - low))
    throw ValueError("uniform",
                     "[" + format_number(low) + ", " + format_number(high) +
                         "): low <= high, and a finite distance between them, are wanted");
  return uniform_in("uniform", shape, low, high, dtype, generator);
}

Tensor randn(const Shape& shape, DType dtype, Generator& generator) {
  Tensor y = empty_floating("randn", shape, dtype);
  const std::uint64_t pairs = (count_of(y) + 1) / 2;
  const RandomState state = generator.take(pairs * kernels::words_of_normal_pair);
  launch([&] { kernels::normal(y.view(), state); });
  return y;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& generator) {
  if (low >= high)
    throw ValueError(
        "randint", "[" + std::to_string(low) + ", " + std::to_string(high) + ") holds no integer");
  Tensor y = empty("randint", shape, DType::i64);
  const RandomState state = generator.take(count_of(y) * kernels::words_of_integer);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  launch([&] { kernels::integers(y.view(), state, low, range); });
  return y;
}

Tensor dropout(Tensor x, double p, Generator& generator) {
  check_floating("dropout", "x", x);
  if (!(p >= 0 && p <= 1))
    throw ValueError("dropout", "p " + format_number(p) + " is outside [0, 1]");
  if (p == 0) return x;
  const RandomState state = generator.take(count_of(x));
  return replay_dropout(std::move(x), p, state);
}

Tensor replay_dropout(Tensor x, double p, RandomState state) {
  const GiveBack give_back(x);
  check_floating("dropout", "x", x);
  if (!(p > 0 && p <= 1))
    throw ValueError("dropout", "p " + format_number(p) + " is outside (0, 1]");
  Tensor y = donate_or_empty("dropout", x, x.shape(), x.dtype());
  const std::uint32_t last_dropped = kernels::last_dropped_word(p);
  launch([&] { kernels::dropout(y.view(), x.view(), state, last_dropped, 1 / (1 - p)); });
  return record<DropoutNode>(y, {&x}, [&](DropoutNode& node) {
    node.state = state;
    node.p = p;
  });
}

}  // namespace tapehead
