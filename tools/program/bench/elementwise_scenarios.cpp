// One operation at a time: what a node costs, and operations bound by memory.
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/softmax.h>

#include "agreement.h"
#include "scenario.h"

namespace tapehead::program::bench {
namespace {

constexpr std::int64_t chain_length = 1000;
constexpr std::int64_t rows = 4096, columns = 1024;

Subject op_overhead() {
  const Tensor x = parameter(ones({1})), step = full({1}, 1e-3);
  const auto run = [x, step] {
    return forward_backward([&] { return chain(x, step, chain_length); }, {x});
  };
  return {.iterate = [run] { run(); },
          .work = {static_cast<double>(chain_length), "nodes"},
          .saved_bytes = 0,
          .error =
              [x, step, run] {
                const Tensor reference = reference_leaf(x);
                const Tensor exact = to(step, DType::f64);
                return largest_error(
                    run(), forward_backward([&] { return chain(reference, exact, chain_length); },
                                            {reference}));
              }};
}

// A function of x and of parameters of its own, in the dtype that x has.
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Reads x twice and g once, and writes y and dx: five passes over the data.
Subject pointwise(const Function& f, const std::vector<Shape>& shapes) {
  Generator generator(1);
  std::vector<Tensor> leaves;
  for (const Shape& shape : shapes)
    leaves.push_back(parameter(randn(shape, DType::f32, generator)));
  const Tensor seed = randn({rows, columns}, DType::f32, generator);
  const auto run = [f, leaves, seed] {
    return forward_backward([&] { return f(leaves); }, leaves, seed);
  };
  return {.iterate = [run] { run(); },
          .work = {5.0 * rows * columns * sizeof(float), "bytes"},
          .saved_bytes = saved_bytes([&] { return f(leaves); }),
          .error =
              [f, leaves, seed, run] {
                std::vector<Tensor> reference;
                for (const Tensor& leaf : leaves) reference.push_back(reference_leaf(leaf));
                return largest_error(run(), forward_backward([&] { return f(reference); },
                                                             reference, to(seed, DType::f64)));
              }};
}

Subject unary(const std::function<Tensor(const Tensor&)>& f) {
  return pointwise([f](const std::vector<Tensor>& in) { return f(in[0]); }, {{rows, columns}});
}

}  // namespace

Tensor chain(Tensor x, const Tensor& step, std::int64_t nodes) {
  for (std::int64_t i = 0; i < nodes; ++i) x = add(x, step);
  return x;
}

std::vector<Scenario> elementwise_scenarios() {
  return {
      {"op_overhead", "x = x + c on one element, 1000 times, forward and backward", op_overhead},
      {"softmax", "softmax of (4096, 1024) along the last dim, forward and backward",
       [] { return unary([](const Tensor& x) { return softmax(x, -1); }); }},
      {"layernorm", "layer_norm of (4096, 1024) with weight and bias, forward and backward",
       [] {
         return pointwise(
             [](const std::vector<Tensor>& in) {
               return layer_norm(in[0], {columns}, in[1], in[2]);
             },
             {{rows, columns}, {columns}, {columns}});
       }},
      {"gelu", "gelu (erf) of (4096, 1024), forward and backward",
       [] { return unary([](const Tensor& x) { return gelu(x); }); }},
      {"gelutanh", "gelu (tanh) of (4096, 1024), forward and backward",
       [] { return unary([](const Tensor& x) { return gelu(x, Approximate::tanh); }); }},
  };
}

}  // namespace tapehead::program::bench
