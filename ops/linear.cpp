#include <tapehead/core/count.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/matrix_product.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

// All leading dims as one: (..., n) as (rows, n).
Tensor as_rows(const Tensor& x) {
  std::int64_t rows = 1;
  for (int i = 0; i < x.rank() - 1; ++i) rows *= x.shape()[i];
  return reshape(x, {rows, x.shape().back()});
}

// x has at least two dims: a 1-D one has become a row by then.
struct LinearNode final : Node {
  LinearNode() : Node("linear") {}
  Saved x{*this, "x", {1}, "dweight = g^T x"};
  Saved weight{*this, "weight", {0}, "dx = g weight"};

  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor dx, dweight, dbias;
    if (wanted[0]) dx = product_gradient(*this, 0, wanted, g, weight.get());
    if (wanted[1]) {
      const Tensor g_t = transpose(as_rows(g), 0, 1);
      const Tensor x_rows = as_rows(x.get());
      dweight = product_gradient(*this, 1, wanted, g_t, x_rows);
    }
    if (inputs().size() == 3 && wanted[2]) dbias = sum_to(std::move(g), input_shape(2));
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }

  std::int64_t flops() const override {
    return count_product(2, numel(input_shape(0)), input_shape(1)[0]);
  }
};

[[noreturn]] void reject(const Tensor& x, const Tensor& weight, const std::string& rule) {
  throw ShapeError("linear", "x " + describe(x) + " and weight " + describe(weight) + ": " + rule);
}

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_floating("linear", "x", x);
  check_same_dtype("linear", x, weight, "x", "weight");
  if (x.rank() == 0 || weight.rank() != 2)
    reject(x, weight, "x needs at least one dim, and weight is (out, in)");
  if (x.shape().back() != weight.shape()[1]) {
    const bool fits_transposed = x.shape().back() == weight.shape()[0];
    reject(x, weight,
           fits_transposed ? "the last sizes differ; weight would fit transposed"
                           : "the last sizes differ");
  }
  if (!bias.defined()) return;
  check_same_dtype("linear", x, bias, "x", "bias");
  if (bias.rank() != 1 || bias.shape()[0] != weight.shape()[0])
    throw ShapeError("linear", "weight " + describe(weight) + " and bias " + describe(bias) +
                                   ": bias must have one entry for each row of weight");
}

// y += bias, for each row of y.
void add_bias(const Tensor& y, const Tensor& bias) {
  launch([&] {
    visit_floating(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::binary<T, T, T>(
          y.view(), bias.view(), y.view(),
          [](T yi, T bi) __attribute__((always_inline)) { return yi + bi; });
    });
  });
}

Tensor linear_of_rows(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Shape shape = x.shape();
  shape[shape.rank() - 1] = weight.shape()[0];
  const Tensor weight_t = alias(weight, {weight.shape()[1], weight.shape()[0]},
                                {weight.strides()[1], weight.strides()[0]}, weight.offset());
  Tensor y = empty("linear", shape, x.dtype());
  multiply_into("linear", x, weight_t, 1, 0, y);
  if (bias.defined()) add_bias(y, bias);
  const Tensor* inputs[] = {&x, &weight, &bias};
  return record<LinearNode>(y, std::span(inputs, bias.defined() ? 3u : 2u), [&](LinearNode& node) {
    node.x.save(x);
    node.weight.save(weight);
  });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_operands(x, weight, bias);
  if (x.rank() > 1) return linear_of_rows(x, weight, bias);
  const Tensor row = unsqueeze(x, 0);
  const Tensor y = linear_of_rows(row, weight, bias);
  return squeeze(y, 0);
}

}  // namespace tapehead
