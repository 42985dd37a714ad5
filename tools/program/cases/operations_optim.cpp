#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>

#include "operations.h"

namespace tapehead::program {
namespace {

// The parameter after one step for each of the gradients g0, g1, ...
template <class Optimizer, class Options>
Tensor stepped(Call& c, const Options& options) {
  const Tensor weights = parameter(clone(c["param"]));
  Optimizer optimizer(std::vector{weights}, options);
  for (const Tensor& g : c.numbered("g")) {
    Gradients gradients;
    gradients.insert(weights, g);
    optimizer.step(gradients);
  }
  return weights;
}

template <class Optimizer, class Options>
Tensor stepped_adam(Call& c) {
  return stepped<Optimizer>(c, Options{.lr = c.number("lr"),
                                       .betas = c.two_numbers("betas"),
                                       .eps = c.number("eps"),
                                       .weight_decay = c.number("weight_decay")});
}

std::vector<Tensor> clipped(Call& c) {
  Gradients gradients;
  std::vector<Tensor> of;
  for (const Tensor& g : c.numbered("g")) {
    of.push_back(parameter(zeros_like(g)));
    gradients.insert(of.back(), clone(g));
  }
  const Tensor norm = nn::clip_grad_norm(gradients, c.number("max_norm"));
  std::vector<Tensor> outputs;
  for (const Tensor& leaf : of) outputs.push_back(gradients[leaf]);
  outputs.push_back(norm);
  return outputs;
}

}  // namespace

void add_optimizers(Operations& t) {
  t.add("sgd", [](Call& c) {
    return stepped<nn::SGD>(c, nn::SGDOptions{.lr = c.number("lr"),
                                              .momentum = c.number("momentum"),
                                              .nesterov = c.truth("nesterov"),
                                              .weight_decay = c.number("weight_decay")});
  });
  t.add("adam", [](Call& c) { return stepped_adam<nn::Adam, nn::AdamOptions>(c); });
  t.add("adamw", [](Call& c) { return stepped_adam<nn::AdamW, nn::AdamWOptions>(c); });
  t.add("clip_grad_norm", [](Call& c) { return clipped(c); });
}

}  // namespace tapehead::program
