// The same bits again: every reduction of ours for any number of threads, and a whole training for
// the same number. Between different numbers of threads only matrix products differ, by how BLAS
// rounds the parts of a split product (ops/matmul.h). The random stream is in
// random_operations_test, the optimizers' steps and clipping are in optimizer_test.
#include "support/training.h"

#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace tapehead;
using tests::Training;

namespace {

// Large enough that threads share the work of every one of them.
constexpr std::int64_t rows = 600, columns = 513;

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  return randn(shape, DType::f32, generator);
}

Tensor below(std::int64_t limit, const Shape& shape) {
  Generator generator(5);
  return randint(0, limit, shape, generator);
}

using Function = std::function<Tensor(const Tensor& x)>;

std::vector<std::pair<std::string, Function>> reductions() {
  std::vector<std::pair<std::string, Function>> all;
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}}) {
    const std::string of = " over " + to_string(dims);
    all.emplace_back("sum" + of, [dims](const Tensor& x) { return sum(x, dims); });
    all.emplace_back("mean" + of, [dims](const Tensor& x) { return mean(x, dims); });
    all.emplace_back("var" + of, [dims](const Tensor& x) { return var(x, dims); });
    all.emplace_back("std" + of, [dims](const Tensor& x) { return tapehead::std(x, dims); });
    all.emplace_back("norm" + of, [dims](const Tensor& x) { return norm(x, 2, dims); });
    all.emplace_back("logsumexp" + of, [dims](const Tensor& x) { return logsumexp(x, dims); });
    all.emplace_back("amax" + of, [dims](const Tensor& x) { return amax(x, dims); });
  }
  for (const std::int64_t dim : {0, 1}) {
    const std::string of = " over " + std::to_string(dim);
    all.emplace_back("softmax" + of, [dim](const Tensor& x) { return softmax(x, dim); });
    all.emplace_back("log_softmax" + of, [dim](const Tensor& x) { return log_softmax(x, dim); });
    all.emplace_back("cumsum" + of, [dim](const Tensor& x) { return cumsum(x, dim); });
    all.emplace_back("prod" + of, [dim](const Tensor& x) { return prod(x, dim); });
  }
  all.emplace_back("layer_norm", [](const Tensor& x) { return layer_norm(x, {columns}); });
  all.emplace_back("rms_norm", [](const Tensor& x) { return rms_norm(x, {columns}); });
  all.emplace_back("cross_entropy",
                   [](const Tensor& x) { return cross_entropy(x, below(columns, {rows})); });
  all.emplace_back("mse_loss", [](const Tensor& x) {
    return mse_loss(x, normal({rows, columns}, 2));
  });
  return all;
}

// Those whose backward rule sums: what stands in many places gathers many gradients.
std::vector<std::pair<std::string, Function>> sums_in_the_backward_pass() {
  const auto wide = [](const Tensor& x) { return mul(normal({rows, columns}, 3), x); };
  return {
      {"a row that broadcasts", [=](const Tensor& x) { return wide(narrow(x, 0, 0, 1)); }},
      {"a column that broadcasts", [=](const Tensor& x) { return wide(narrow(x, 1, 0, 1)); }},
      {"embedding",
       [](const Tensor& x) {
         return embedding(x, below(rows, {40, 50}));
       }},
      {"index_select", [](const Tensor& x) { return index_select(x, 1, below(columns, {700})); }},
      {"gather",
       [](const Tensor& x) {
         return gather(x, 0, below(rows, {900, columns}));
       }},
      {"layer_norm's weight",
       [](const Tensor& x) {
         const Tensor weight = reshape(narrow(x, 0, 0, 1), {columns});
         return layer_norm(normal({rows, columns}, 3), {columns}, weight, weight);
       }},
      {"linear's bias",
       [](const Tensor& x) {
         const Tensor bias = reshape(narrow(x, 0, 0, 1), {columns});
         return linear(ones({rows, 1}), ones({columns, 1}), bias);
       }},
      {"index_add",
       [](const Tensor& x) {
         return index_add(zeros({7, columns}), 0, below(7, {rows}), x);
       }},
      {"scatter_add",
       [](const Tensor& x) {
         return scatter_add(zeros({7, columns}), 0, below(7, {rows, columns}), x);
       }},
  };
}

// The result and the gradient of x for a random upstream gradient.
std::pair<Tensor, Tensor> run(const Function& f, int threads) {
  const ThreadBudget budget(threads);
  const Tensor x = parameter(normal({rows, columns}, 1));
  Tape tape;
  const Tensor y = f(x);
  return {y.detach(), tape.gradient(y, {x}, normal(y.shape(), 4))[x]};
}

}  // namespace

TEST_CASE("reductions and their gradients have the same bits for 1, 2 and 4 threads") {
  auto all = reductions();
  for (auto& more : sums_in_the_backward_pass()) all.push_back(std::move(more));
  for (const auto& named : all) {
    CAPTURE(named.first);
    const auto [y, dx] = run(named.second, 1);
    for (const int threads : {2, 4}) {
      CAPTURE(threads);
      const auto [again, dx_again] = run(named.second, threads);
      CHECK(equal(again, y));
      CHECK(equal(dx_again, dx));
    }
  }
}

TEST_CASE("a training has the same bits again for the same seed and number of threads") {
  nn::GptOptions options = Training::small_model();
  options.context = 48;
  options.dim = 64;
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    const ThreadBudget budget(threads);
    const auto train = [&](std::uint64_t seed) {
      Training training(options, seed);
      for (int step = 0; step < 4; ++step) training.step();
      return training.numbers();
    };
    const Training::Numbers first = train(1);
    CHECK(train(1) == first);
    CHECK(train(2) != first);
  }
}
