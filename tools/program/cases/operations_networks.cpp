// Normalisations, linear, and losses.
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/softmax.h>

#include <limits>

#include "operations.h"

namespace tapehead::program {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// For losses of x and a target of its shape.
template <class F>
auto against_target(F f) {
  return [f](Call& c) { return f(c["x"], c["target"], parse_reduction(c.text("reduction"))); };
}

}  // namespace

void add_networks(Operations& t) {
  t.add("softmax", [](Call& c) {
    const Tensor mask = c.optional("mask");
    const Tensor x = mask.defined() ? masked_fill(c["x"], mask, minus_infinity) : c["x"];
    return softmax(x, c.integer("dim"));
  });
  t.add("log_softmax", [](Call& c) { return log_softmax(c["x"], c.integer("dim")); });
  t.add("layer_norm", [](Call& c) {
    const Tensor weight = c.optional("weight"), bias = c.optional("bias");
    return layer_norm(c["x"], c.dims("normalized_shape"), weight, bias, c.number("eps"));
  });
  t.add("rms_norm", [](Call& c) {
    return rms_norm(c["x"], c.dims("normalized_shape"), c.optional("weight"), c.number("eps"));
  });
  t.add("linear", [](Call& c) { return linear(c["x"], c["weight"], c.optional("bias")); });
}

void add_losses(Operations& t) {
  t.add("cross_entropy", [](Call& c) {
    const CrossEntropyOptions options{.ignore_index = c.integer("ignore_index"),
                                      .label_smoothing = c.number("label_smoothing"),
                                      .reduction = parse_reduction(c.text("reduction"))};
    return cross_entropy(c["logits"], c["target"], options);
  });
  t.add("nll_loss", [](Call& c) {
    return nll_loss(c["x"], c["target"], c.integer("ignore_index"),
                    parse_reduction(c.text("reduction")));
  });
  t.add("mse_loss", against_target([](auto&&... of) { return mse_loss(of...); }));
  t.add("binary_cross_entropy_with_logits",
        against_target([](auto&&... of) { return binary_cross_entropy_with_logits(of...); }));
  t.add("smooth_l1_loss", [](Call& c) {
    const double beta = c.number("beta");
    return smooth_l1_loss(c["x"], c["target"], beta, parse_reduction(c.text("reduction")));
  });
}

}  // namespace tapehead::program
