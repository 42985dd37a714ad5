// Section 3.4, left padding under a causal mask: the pads see no key at all, and what becomes of
// it.
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tapehead::program::lecture {

namespace {

constexpr std::int64_t pads = 2, real = 3, T = pads + real, d = 4;

struct Attended {
  Tensor y, dq, dk, dv;
};
using Attention = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

// pad pad A B C, of which only A, B and C are in the loss.
struct LeftPadded {
  Tensor q, k, v, dy;
  nn::Mask mask = nn::Mask::causal() & nn::Mask::padding(tensor({1, 1, 0, 0, 0}, DType::boolean));

  explicit LeftPadded(Generator& generator) {
    q = randn({T, d}, f64, generator);
    k = randn({T, d}, f64, generator);
    v = randn({T, d}, f64, generator);
    const Tensor of_real = randn({real, d}, f64, generator);
    dy = cat({zeros({pads, d}, f64), of_real});
  }

  Attended run(const Attention& attention) const { return run(attention, 0, T); }
  /// On the positions from `first` on only.
  Attended run(const Attention& attention, std::int64_t first, std::int64_t count) const {
    const auto leaf = [&](const Tensor& x) { return parameter(clone(narrow(x, 0, first, count))); };
    const Tensor q_ = leaf(q), k_ = leaf(k), v_ = leaf(v);
    Tape tape;
    const Tensor y = attention(q_, k_, v_);
    const Gradients g = tape.gradient(y, {q_, k_, v_}, narrow(dy, 0, first, count));
    return {y.detach(), g[q_], g[k_], g[v_]};
  }
};

// By the raw operations, which follow IEEE: hidden scores become `hidden_score`.
Tensor raw_weights(const Tensor& q, const Tensor& k, const nn::Mask& mask, double hidden_score) {
  const Tensor S = matmul(q, transposed(k), {.scale = 1 / std::sqrt(static_cast<double>(d))});
  return masked_softmax(S, mask.hidden(S.shape()), hidden_score);
}

Attention raw_attention(const nn::Mask& mask, double hidden_score) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return matmul(raw_weights(q, k, mask, hidden_score), v);
  };
}

Attention our_attention(const nn::Mask& mask, nn::AttentionPath path) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return nn::attention(q, k, v, {.mask = mask, .path = path});
  };
}

// Masks as PyTorch's function takes them: true takes part.
Attention sdpa(const nn::Mask& mask) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor takes_part = logical_not(mask.hidden({T, T}));
    return nn::scaled_dot_product_attention(q, k, v, takes_part);
  };
}

// How far the real positions' outputs and all gradients are from those of A B C without padding,
// whose pads would have gradients of 0.
double distance_from_unpadded(const LeftPadded& input, const Attention& attention) {
  const Attended padded = input.run(attention);
  const Attended bare =
      input.run(our_attention(nn::Mask::causal(), nn::AttentionPath::composed), pads, real);
  double distance = largest_difference(narrow(padded.y, 0, pads, real), bare.y);
  const auto compare = [&](const Tensor& gradient, const Tensor& of_real) {
    const Tensor expected = cat({zeros({pads, d}, f64), of_real});
    distance += largest_difference(gradient, expected);  // a NaN stays
  };
  compare(padded.dq, bare.dq);
  compare(padded.dk, bare.dk);
  compare(padded.dv, bare.dv);
  return distance;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

void add_trouble(Group& group, const LeftPadded& input) {
  const nn::Mask& mask = input.mask;
  const Tensor visible = sum(to(logical_not(mask.hidden({T, T})), f64), {-1});
  const Quote counts[] = {"0", "0", "1", "2", "3"};
  for (std::int64_t i = 0; i < T; ++i)
    group.add("keys that query " + std::to_string(i) + " sees", counts[i],
              select(visible, 0, i).item(), exactly(*counts[i].value));

  const Tensor with_infinity = raw_weights(input.q, input.k, mask, -infinity);
  const Tensor with_finite = raw_weights(input.q, input.k, mask, -1e9);
  const auto count_nan_rows = [&](const char* name, const char* lecture, const Tensor& rows) {
    group.add(name, lecture, static_cast<double>(rows_with_nan(rows)),
              exactly(*Quote(lecture).value));
  };
  count_nan_rows("-inf: rows 0 and 1 of A that are NaN", "2", narrow(with_infinity, 0, 0, pads));
  count_nan_rows("-inf: rows 2 to 4 of A that are NaN", "0", narrow(with_infinity, 0, pads, real));
  count_nan_rows("-1e9: rows of A that are NaN", "0", with_finite);
  group.add("-1e9: |A - 1/5| in rows 0 and 1", "uniform",
            largest(narrow(with_finite, 0, 0, pads) - 1.0 / T), exactly(0));
  count_nan_rows("-inf: rows of dV that are NaN", "5",
                 input.run(raw_attention(mask, -infinity)).dv);
  group.checks.back().note = "though dY is 0 at the pads: NaN * 0 = NaN in dV = A^T dY";
}

void add_cures(Group& group, const LeftPadded& input) {
  constexpr double lowest = std::numeric_limits<double>::lowest();
  const nn::Mask& mask = input.mask;
  const struct {
    const char* name;
    Attention attention;
  } cures[] = {
      {"cure: -1e9", raw_attention(mask, -1e9)},
      {"cure: the lowest finite number", raw_attention(mask, lowest)},
      {"cure: every query may see itself", raw_attention(mask | nn::Mask::window(1), -infinity)},
      {"cure: scaled_dot_product_attention", sdpa(mask)},
      {"none needed: nn::attention, composed", our_attention(mask, nn::AttentionPath::composed)},
      {"none needed: nn::attention, fused", our_attention(mask, nn::AttentionPath::fused)},
  };
  const double uncured = distance_from_unpadded(input, raw_attention(mask, -infinity));
  group.add("-inf: distance from A B C unpadded is NaN", "yes", std::isnan(uncured), exactly(1));
  for (const auto& [name, attention] : cures)
    group.add(name, "no NaN", distance_from_unpadded(input, attention), at_most(1e-14));
  group.checks.back().note =
      "from the first cure on: distance of outputs and gradients from those of A B C unpadded";
}

}  // namespace

Group left_padding(int) {
  Group group{"7", "Left padding under a causal mask (section 3.4)",
              "pad pad A B C, d 4, all from N(0, 1); dY is 0 at the pads"};
  Generator generator(7);
  const LeftPadded input(generator);
  add_trouble(group, input);
  add_cures(group, input);
  return group;
}

}  // namespace tapehead::program::lecture
