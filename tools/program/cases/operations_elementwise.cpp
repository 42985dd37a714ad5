#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/pointwise.h>

#include "operations.h"

namespace tapehead::program {
namespace {

void add_unary(Operations& t) {
  t.add("neg", [](Call& c) { return neg(c["x"]); });
  t.add("abs", [](Call& c) { return abs(c["x"]); });
  t.add("exp", [](Call& c) { return exp(c["x"]); });
  t.add("log", [](Call& c) { return log(c["x"]); });
  t.add("sqrt", [](Call& c) { return sqrt(c["x"]); });
  t.add("rsqrt", [](Call& c) { return rsqrt(c["x"]); });
  t.add("square", [](Call& c) { return square(c["x"]); });
  t.add("reciprocal", [](Call& c) { return reciprocal(c["x"]); });
  t.add("sin", [](Call& c) { return sin(c["x"]); });
  t.add("cos", [](Call& c) { return cos(c["x"]); });
  t.add("tanh", [](Call& c) { return tanh(c["x"]); });
  t.add("sigmoid", [](Call& c) { return sigmoid(c["x"]); });
  t.add("relu", [](Call& c) { return relu(c["x"]); });
  t.add("silu", [](Call& c) { return silu(c["x"]); });
  t.add("softplus", [](Call& c) { return softplus(c["x"]); });
  t.add("erf", [](Call& c) { return erf(c["x"]); });
}

void add_parametrised(Operations& t) {
  t.add("leaky_relu", [](Call& c) { return leaky_relu(c["x"], c.number("negative_slope")); });
  t.add("gelu", [](Call& c) { return gelu(c["x"], parse_approximate(c.text("approximate"))); });
  t.add("clamp", [](Call& c) {
    const std::optional<double> low = c.optional_number("min"), high = c.optional_number("max");
    return clamp(c["x"], low, high);
  });
  t.add("pow_scalar", [](Call& c) { return pow(c["x"], c.number("exponent")); });
  t.add("add_scalar", [](Call& c) { return add(c["x"], c.number("value")); });
  t.add("mul_scalar", [](Call& c) { return mul(c["x"], c.number("value")); });
}

void add_binary(Operations& t) {
  t.add("add", [](Call& c) { return add(c["a"], c["b"]); });
  t.add("sub", [](Call& c) { return sub(c["a"], c["b"]); });
  t.add("mul", [](Call& c) { return mul(c["a"], c["b"]); });
  t.add("div", [](Call& c) { return div(c["a"], c["b"]); });
  t.add("maximum", [](Call& c) { return maximum(c["a"], c["b"]); });
  t.add("minimum", [](Call& c) { return minimum(c["a"], c["b"]); });
  t.add("pow", [](Call& c) { return pow(c["a"], c["b"]); });
  t.add("where", [](Call& c) { return where(c["condition"], c["a"], c["b"]); });
}

void add_comparisons(Operations& t) {
  t.add("eq", [](Call& c) { return eq(c["a"], c["b"]); });
  t.add("ne", [](Call& c) { return ne(c["a"], c["b"]); });
  t.add("lt", [](Call& c) { return lt(c["a"], c["b"]); });
  t.add("le", [](Call& c) { return le(c["a"], c["b"]); });
  t.add("gt", [](Call& c) { return gt(c["a"], c["b"]); });
  t.add("ge", [](Call& c) { return ge(c["a"], c["b"]); });
}

}  // namespace

void add_elementwise(Operations& table) {
  add_unary(table);
  add_parametrised(table);
  add_binary(table);
  add_comparisons(table);
}

}  // namespace tapehead::program
