// Functions of one tensor, element by element.
#include "support/operation_case.h"

#include <tapehead/ops/activations.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/random.h>

namespace tapehead::tests {

Rows pointwise_rows() {
  const auto gelu_tanh = [](Tensor x) { return gelu(std::move(x), Approximate::tanh); };
  const auto leaky = [](double slope) {
    return [=](Tensor x) { return leaky_relu(std::move(x), slope); };
  };
  const auto power = [](double exponent) {
    return [=](Tensor x) { return pow(std::move(x), exponent); };
  };
  const auto between = [](std::optional<double> min, std::optional<double> max) {
    return [=](Tensor x) { return clamp(std::move(x), min, max); };
  };
  const auto dropped = [](Tensor x) {
    Generator generator(5);
    return dropout(std::move(x), 0.4, generator);
  };
  const auto replayed = [](Tensor x) { return replay_dropout(std::move(x), 0.4, {5, 8}); };
  // A row in as few lines as it needs.
  // clang-format off
  return {
      pointwise("neg", neg, ""),
      pointwise("abs", abs, "x", Domain::apart),
      pointwise("add/scalar", [](Tensor x) { return add(std::move(x), 1.5); }, ""),
      pointwise("div/scalar", [](Tensor x) { return div(std::move(x), -1.5); }, ""),
      pointwise("mul/scalar", [](Tensor x) { return mul(std::move(x), -1.5); }, ""),
      pointwise("exp", exp, "y"),
      pointwise("log", log, "x", Domain::positive),
      pointwise("sqrt", sqrt, "y", Domain::positive),
      pointwise("rsqrt", rsqrt, "y", Domain::positive),
      pointwise("square", square, "x"),
      pointwise("reciprocal", reciprocal, "y", Domain::positive),
      pointwise("sin", sin, "x"),
      pointwise("cos", cos, "x"),
      pointwise("erf", erf, "x"),
      pointwise("pow/scalar", power(-1.5), "pow_scalar.x", Domain::positive),
      pointwise("pow/cube", power(3), "pow_scalar.x"),
      pointwise("pow/zero", power(0), ""),
      pointwise("pow/two", power(2), "pow_scalar.x"),
      pointwise("clamp", between(-0.2, 0.3), "x", Domain::apart),
      pointwise("clamp/min", between(-0.2, {}), "x", Domain::apart),

      pointwise("tanh", tanh, "y"),
      pointwise("sigmoid", sigmoid, "y"),
      pointwise("relu", relu, "y", Domain::apart),
      pointwise("leaky_relu", leaky(0.1), "y", Domain::apart),
      pointwise("leaky_relu/negative", leaky(-0.5), "x", Domain::apart),
      pointwise("gelu", [](Tensor x) { return gelu(std::move(x)); }, "x"),
      pointwise("gelu/tanh", gelu_tanh, "x"),
      pointwise("silu", silu, "x"),
      pointwise("softplus", softplus, "x"),
      pointwise("logsigmoid", logsigmoid, "x"),

      pointwise("dropout", dropped, ""),
      pointwise("replay_dropout", replayed, ""),
      pointwise("to", [](Tensor x) { return to(to(x, DType::f64), DType::f64); }, "").any_dtype(),
  };
  // clang-format on
}

}  // namespace tapehead::tests
