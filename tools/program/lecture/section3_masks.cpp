// Section 3, masks: the causal mask isolates gradients (3.1), and left padding under it makes rows
// that see nothing (3.4).
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tapehead::program::lecture {

// ---- group 6 ------------------------------------------------------------------------------------

namespace {

// The norms of the blocks dy_t / dx_s, (T, T), by central differences.
Tensor sensitivity(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  constexpr double h = 1e-6;
  const std::int64_t T = x.size(0), d = x.size(1);
  Tensor squares = zeros({T, T}, f64);
  for (std::int64_t s = 0; s < T; ++s) {
    for (std::int64_t c = 0; c < d; ++c) {
      const Tensor step = matmul(eye_at(T, 1, -s), eye_at(1, d, c)) * h;  // at x_sc
      const Tensor above = f(x + step), below = f(x - step);
      const Tensor dy = (above - below) / (2 * h);
      const Tensor of_s = sum(square(dy), {1}, true);
      squares = squares + matmul(of_s, eye_at(1, T, s));
    }
  }
  return sqrt(squares);
}

double of_the_future(const Tensor& by_position) { return largest(triu(by_position, 1)); }

// The largest gradient that dy_t sends to an x_s with s > t, by the tape.
double gradient_of_the_future(const Head& head, const Tensor& x, const Tensor& dy,
                              const nn::Mask& mask) {
  const Tensor leaf = parameter(clone(x));
  Tape tape;
  const Tensor y = head(leaf, mask);
  double largest_so_far = 0;
  for (std::int64_t t = 0; t + 1 < x.size(0); ++t) {
    const Tensor y_t = select(y, 0, t);
    const Tensor dx = tape.gradient(y_t, {leaf}, select(dy, 0, t), {.keep = true})[leaf];
    largest_so_far = std::max(largest_so_far, largest(narrow(dx, 0, t + 1, x.size(0) - t - 1)));
  }
  return largest_so_far;
}

}  // namespace

Group gradient_isolation(int repeats) {
  constexpr std::int64_t T = 6, d = 5;
  const nn::Mask causal = nn::Mask::causal();
  const std::vector<Draws> drawn = draw(repeats, [&](Generator& generator) {
    const Tensor x = randn({T, d}, f64, generator);
    const Tensor dy = randn({T, d}, f64, generator);
    const Head head = random_head(d, d, generator);
    const auto without = [&](const Tensor& at) { return head(at); };
    const auto with = [&](const Tensor& at) { return head(at, causal); };
    return std::vector<double>{of_the_future(sensitivity(without, x)),
                               of_the_future(sensitivity(with, x)),
                               gradient_of_the_future(head, x, dy, causal)};
  });
  Group group{"6", "The causal mask isolates gradients: |dy_t / dx_s| for s > t (section 3.1)",
              "T 6, d 5, Frobenius norms of the blocks by differences"};
  group.add("largest without a mask", "1.1", drawn[0].median, spread(drawn[0]));
  group.add("largest under the causal mask", "0", drawn[1].largest, exactly(0));
  group.add("the same by the tape", "0", drawn[2].largest, exactly(0));
  return group;
}

// ---- group 7 ------------------------------------------------------------------------------------

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

}  // namespace

Group left_padding(int) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double lowest = std::numeric_limits<double>::lowest();
  Generator generator(7);
  const LeftPadded input(generator);
  const nn::Mask& mask = input.mask;
  Group group{"7", "Left padding under a causal mask (section 3.4)",
              "pad pad A B C, d 4, all from N(0, 1); dY is 0 at the pads"};

  const Tensor visible = sum(to(logical_not(mask.hidden({T, T})), f64), {-1});
  const char* counts[] = {"0", "0", "1", "2", "3"};
  for (std::int64_t i = 0; i < T; ++i) {
    const double expected = std::atof(counts[i]);
    group.add("keys that query " + std::to_string(i) + " sees", counts[i],
              select(visible, 0, i).item(), exactly(expected));
  }

  const Tensor with_infinity = raw_weights(input.q, input.k, mask, -infinity);
  const Tensor with_finite = raw_weights(input.q, input.k, mask, -1e9);
  const auto count = [](std::int64_t rows) { return static_cast<double>(rows); };
  group.add("-inf: rows 0 and 1 of A that are NaN", "2",
            count(rows_with_nan(narrow(with_infinity, 0, 0, pads))), exactly(2));
  group.add("-inf: rows 2 to 4 of A that are NaN", "0",
            count(rows_with_nan(narrow(with_infinity, 0, pads, real))), exactly(0));
  group.add("-1e9: rows of A that are NaN", "0", count(rows_with_nan(with_finite)), exactly(0));
  group.add("-1e9: |A - 1/5| in rows 0 and 1", "uniform",
            largest(narrow(with_finite, 0, 0, pads) - 1.0 / T), exactly(0));
  const Attended poisoned = input.run(raw_attention(mask, -infinity));
  group.add("-inf: rows of dV that are NaN", "5", count(rows_with_nan(poisoned.dv)), exactly(5),
            "though dY is 0 at the pads: NaN * 0 = NaN in dV = A^T dY");

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
  group.add("-inf: distance from A B C unpadded is NaN", "yes",
            std::isnan(distance_from_unpadded(input, raw_attention(mask, -infinity))), exactly(1));
  for (const auto& [name, attention] : cures)
    group.add(name, "no NaN", distance_from_unpadded(input, attention), at_most(1e-14));
  group.checks.back().note =
      "from the first cure on: distance of outputs and gradients from those of A B C unpadded";
  return group;
}

}  // namespace tapehead::program::lecture
