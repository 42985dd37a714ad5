// Softmax, normalisation and losses.
#include "support/operation_case.h"

#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/softmax.h>

namespace tapehead::tests {
namespace {

// The three reductions of a loss of x and a target of the same shape.
template <class F>
void add_loss(Rows& rows, const std::string& name, Domain x, Domain target, F f,
              const std::string& saves = "x, target") {
  for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const char* which = reduction == Reduction::none   ? ""
                        : reduction == Reduction::mean ? "/mean"
                                                       : "/sum";
    OperationCase added = row(name + which, {{x, {2, 3}}, {target, {2, 3}}},
                              [=](In in) { return f(in[0], in[1], reduction); });
    added.saves(saves).also({}, {}).also({1}, {1});
    if (reduction != Reduction::mean) added.also({0, 3}, {0, 3});
    rows.push_back(added);
  }
}

}  // namespace

Rows neural_rows() {
  const auto smooth = [](double beta) {
    return [=](const Tensor& x, const Tensor& target, Reduction reduction) {
      return smooth_l1_loss(x, target, beta, reduction);
    };
  };
  // A row in as few lines as it needs.
  // clang-format off
  Rows rows{
      row("softmax", {real({3, 4})}, [](In x) { return softmax(std::move(x[0]), -1); }).saves("y")
          .also({1}).also({0, 3}).also({3, 0}).also({2, 3, 4}),
      row("softmax/first_dim", {real({3, 4})},
          [](In x) { return softmax(std::move(x[0]), 0, {EmptyRow::zero}); }).saves("y").also({}),
      row("softmax_backward", {real({3, 4}), real({3, 4})},
          [](In x) { return softmax_backward(std::move(x[0]), x[1], 1); }).saves("g, y")
          .also({0, 3}, {0, 3}).also({2, 1}, {2, 1}),
      row("log_softmax", {real({3, 4})}, [](In x) { return log_softmax(std::move(x[0]), 1); })
          .saves("y").also({2, 1}).also({0, 3}).also({3, 0}).also({2, 3, 4}),
      row("log_softmax/first_dim", {real({3, 4})},
          [](In x) { return log_softmax(std::move(x[0]), 0); }).saves("y").also({}),

      row("layer_norm", {real({2, 4}), real({4}), real({4})},
          [](In x) { return layer_norm(x[0], {4}, x[1], x[2]); }).saves("x, mean, rstd, weight")
          .also({4}, {4}, {4}).also({2, 3, 4}, {4}, {4}).also({0, 4}, {4}, {4}),
      row("layer_norm/plain", {real({2, 3, 4})}, [](In x) { return layer_norm(x[0], {3, 4}); })
          .saves("x, mean, rstd").also({3, 4}),
      row("layer_norm/no_bias", {real({2, 4}), real({4})},
          [](In x) { return layer_norm(x[0], {4}, x[1]); }).saves("x, mean, rstd, weight"),
      row("rms_norm", {real({2, 4}), real({4})}, [](In x) { return rms_norm(x[0], {4}, x[1]); })
          .saves("x, rstd, weight").also({4}, {4}).also({2, 3, 4}, {4}).also({0, 4}, {4}),
      row("rms_norm/plain", {real({2, 3, 4})}, [](In x) { return rms_norm(x[0], {3, 4}); })
          .saves("x, rstd").also({3, 4}),

      row("cross_entropy", {real({3, 4}), index({3}, 4)},
          [](In x) { return cross_entropy(x[0], x[1]); }).saves("target, count, logits")
          .also({1, 4}, {1}).also({4}, {}).also({2, 4, 3}, {2, 3}),
      row("cross_entropy/smooth", {real({3, 4}), index({3}, 4)},
          [](In x) {
            return cross_entropy(x[0], x[1], {.ignore_index = 2, .label_smoothing = 0.3});
          })
          .saves("target, count, logits"),
      row("cross_entropy/none", {real({2, 4, 3}), index({2, 3}, 4)},
          [](In x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::none}); })
          .saves("target, logits").also({0, 4}, {0}).also({4}, {}),
      row("cross_entropy/weight", {real({3, 4}), index({3}, 4), fixed(positive({4}))},
          [](In x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1, .weight = x[2]}); })
          .saves("target, weight, count, logits"),
      row("nll_loss", {real({3, 4}), index({3}, 4)}, [](In x) { return nll_loss(x[0], x[1]); })
          .saves("target, count").also({1, 4}, {1}).also({4}, {}).also({2, 4, 3}, {2, 3}),
      row("nll_loss/none", {real({3, 4}), index({3}, 4), fixed(positive({4}))},
          [](In x) { return nll_loss(x[0], x[1], 2, Reduction::none, x[2]); })
          .saves("target, weight").also({0, 4}, {0}, {4}),
  };
  // clang-format on
  add_loss(rows, "mse_loss", Domain::real, Domain::real, mse_loss);
  add_loss(rows, "smooth_l1_loss", Domain::apart, Domain::apart, smooth(0.52));
  add_loss(rows, "smooth_l1_loss/beta_0", Domain::apart, Domain::apart, smooth(0), "abs.x");
  add_loss(rows, "binary_cross_entropy_with_logits", Domain::real, Domain::probability,
           binary_cross_entropy_with_logits);
  return rows;
}

}  // namespace tapehead::tests
