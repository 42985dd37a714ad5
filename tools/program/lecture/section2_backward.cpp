// Section 2.3, the backward pass derived by hand: five lines, held against differences and against
// the tape.
#include "draws.h"
#include "five_line_attention.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/record.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/attention.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace tapehead::program::lecture {

// ---- the operation ------------------------------------------------------------------------------

namespace {

double scale_of(const Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

struct FiveLineAttentionNode final : Node {
  FiveLineAttentionNode() : Node("five_line_attention") {}
  Saved q{*this, "q", {0, 1}, "A = softmax(s q k^T); dK = s dS^T q"};
  Saved k{*this, "k", {0, 1, 2}, "A = softmax(s q k^T); dQ = s dS k"};
  Saved v{*this, "v", {0, 1}, "dA = dY v^T"};
  Saved y{*this, "y", {0, 1}, "D = sum(dY * y)"};
  nn::Mask mask;

  Grads backward(Tensor dy, const Wanted&) override {
    const Tensor A = nn::attention_weights(q.get(), k.get(), {.mask = mask});
    const FiveLines g = five_lines(q.get(), k.get(), v.get(), A, y.get(), dy, scale_of(q.get()));
    return {g.dq, g.dk, g.dv};
  }
};

}  // namespace

Tensor five_line_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const nn::Mask& mask) {
  Tensor y;
  {
    const Tape::Pause by_our_own_rule;
    y = nn::attention(q, k, v, {.mask = mask});
  }
  return record<FiveLineAttentionNode>(y, {&q, &k, &v}, [&](FiveLineAttentionNode& node) {
    node.q.save(q);
    node.k.save(k);
    node.v.save(v);
    node.y.save(y);
    node.mask = mask;
  });
}

// ---- group 5 ------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t T = 6, d_k = 4, d_v = 5;

// The derivative of f at x by central differences, an element at a time.
Tensor differences(const std::function<double(const Tensor&)>& f, const Tensor& x) {
  constexpr double h = 1e-5;  // truncation h^2 and rounding 1e-16 / h are both below 1e-10
  std::vector<double> point = x.to_vector(), slopes;
  for (double& coordinate : point) {
    const double here = coordinate;
    const auto f_at = [&](double value) {
      coordinate = value;
      return f(from_vector(point, x.shape()));
    };
    const double above = f_at(here + h), below = f_at(here - h);
    coordinate = here;
    slopes.push_back((above - below) / (2 * h));
  }
  return from_vector(slopes, x.shape());
}

double relative_error(const Tensor& by_hand, const Tensor& numeric) {
  return largest_difference(by_hand, numeric) / largest(numeric);
}

std::vector<double> hand_against_differences(Generator& generator) {
  const auto noise = [&](const Shape& shape) { return randn(shape, f64, generator); };
  const Tensor q = parameter(noise({T, d_k})), k = parameter(noise({T, d_k}));
  const Tensor v = parameter(noise({T, d_v})), dY = noise({T, d_v});
  const nn::AttentionOptions causal{.mask = nn::Mask::causal()};
  Tape tape;
  const Tensor recorded = nn::attention(q, k, v, causal);
  const Gradients of_tape = tape.gradient(recorded, {q, k, v}, dY);

  const Tape::Pause inference;
  const Tensor A = nn::attention_weights(q, k, causal), Y = matmul(A, v);
  const FiveLines g = five_lines(q, k, v, A, Y, dY, scale_of(q));
  const auto loss = [&](const Tensor& q_, const Tensor& k_, const Tensor& v_) {
    return sum(nn::attention(q_, k_, v_, causal) * dY).item();
  };
  const Tensor dQ = differences([&](const Tensor& x) { return loss(x, k, v); }, q);
  const Tensor dK = differences([&](const Tensor& x) { return loss(q, x, v); }, k);
  const Tensor dV = differences([&](const Tensor& x) { return loss(q, k, x); }, v);

  const Tensor D = sum(matmul(dY, transposed(v)) * A, {-1}), yy = sum(dY * Y, {-1});
  const Tensor seen = logical_not(nn::Mask::causal().hidden({T, T}));
  const double from_tape =
      std::max({largest_difference(g.dq, of_tape[q]), largest_difference(g.dk, of_tape[k]),
                largest_difference(g.dv, of_tape[v])});
  return {relative_error(g.dq, dQ),
          relative_error(g.dk, dK),
          relative_error(g.dv, dV),
          largest_difference(D, yy),
          largest(masked_fill(g.ds, seen, 0)),
          largest(sum(g.ds, {-1})),
          from_tape};
}

}  // namespace

Group backward_by_hand(int) {
  const std::vector<Draws> drawn = draw(hand_against_differences);
  Group group{"5", "The backward pass by hand, under a causal mask (section 2.3)",
              "T 6, d_k 4, d_v 5, all from N(0, 1), steps of 1e-5; the largest of 20 seeds"};
  // A decimal order above what steps and rounding leave; a wrong term is an error near 1.
  group.add("dQ against differences, relative", "1.1e-9", drawn[0].largest, at_most(1e-8));
  group.add("dK against differences, relative", "1.7e-9", drawn[1].largest, at_most(1e-8));
  group.add("dV against differences, relative", "2.4e-10", drawn[2].largest, at_most(1e-8));
  group.add("|D_i - <dy_i, y_i>|", "8.9e-16", drawn[3].largest, at_most(1e-14));
  group.add("|dS| where the mask hides", "0", drawn[4].largest, exactly(0));
  group.add("|sum over a row of dS|", "0", drawn[5].largest, at_most(1e-14));
  group.add("five lines against the tape's gradients", "", drawn[6].largest, at_most(1e-14));
  return group;
}

}  // namespace tapehead::program::lecture
