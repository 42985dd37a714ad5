// Section B: the multi-head attention that the lecture asks to be written by hand, and the
// self-test of its reference implementation.
#include "five_line_attention.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/gradcheck.h>
#include <tapehead/core/tape.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tapehead::program::lecture {

namespace {

constexpr std::int64_t B = 2, T = 6, d = 8, heads = 4;

// ---- by hand ------------------------------------------------------------------------------------

struct ByHand {
  Tensor q, k, v;  // (B, h, T, d_k)
  Tensor weights;  // (B, h, T, T)
  Tensor y;        // (B, T, d)
};

// The code of section 4.3, line by line. `hidden` is true where masked_fill fills, or undefined.
ByHand by_hand(const nn::MultiHeadAttention& module, const Tensor& x, const Tensor& hidden) {
  const std::int64_t h = module.options().num_heads, d_k = d / h;
  const auto heads_of = [&](Part part) {
    return transpose(reshape(project(module, x, part), {B, T, h, d_k}), 1, 2);
  };
  ByHand hand;
  hand.q = heads_of(query);
  hand.k = heads_of(key);
  hand.v = heads_of(value);
  const double s = 1 / std::sqrt(static_cast<double>(d_k));
  const Tensor att = matmul(hand.q, transpose(hand.k, -2, -1), {.scale = s});
  hand.weights = masked_softmax(att, hidden);
  const Tensor y = matmul(hand.weights, hand.v);
  const Tensor merged = reshape(transpose(y, 1, 2), {B, T, d});
  hand.y = module.out_proj(merged);
  return hand;
}

// One head without splitting: softmax(Q K^T / sqrt(d)) V W_O.
Tensor single_head(const nn::MultiHeadAttention& module, const Tensor& x, const Tensor& hidden) {
  const Tensor q = project(module, x, query);
  const Tensor k = project(module, x, key);
  const Tensor v = project(module, x, value);
  const double s = 1 / std::sqrt(static_cast<double>(d));
  const Tensor S = matmul(q, transposed(k), {.scale = s});
  const Tensor A = masked_softmax(S, hidden);
  const Tensor y = matmul(A, v);
  return module.out_proj(y);
}

nn::MultiHeadAttention module_with(std::int64_t num_heads, Generator& generator) {
  return nn::MultiHeadAttention({.embed_dim = d, .num_heads = num_heads, .dtype = f64}, generator);
}

// ---- the checks ---------------------------------------------------------------------------------

void multi_head(Group& group, Generator& generator) {
  const Tape::Pause inference;
  const nn::MultiHeadAttention module = module_with(heads, generator);
  const Tensor x = randn({B, T, d}, f64, generator);
  // The second sequence is two tokens shorter. Hidden by either: logical or.
  const nn::Mask causal = nn::Mask::causal(), padding = nn::Mask::padding({T, T - 2});
  const nn::Mask mask = causal & padding;
  const Shape scores{B, heads, T, T};
  const Tensor hidden = logical_or(causal.hidden(scores), padding.hidden(scores));
  const ByHand hand = by_hand(module, x, hidden);

  group.add("combined mask against causal or padding", "0",
            sum(to(ne(mask.hidden(scores), hidden), f64)).item(), exactly(0));
  group.add("|sum of a row's weights - 1|", "0", largest(sum(hand.weights, {-1}) - 1.0),
            at_most(1e-15));
  group.add("largest weight of a hidden key", "0",
            largest(masked_fill(hand.weights, logical_not(hidden), 0)), exactly(0));
  group.add("by hand against nn::MultiHeadAttention", "",
            relative_difference(hand.y, module(x, mask)), at_most(1e-15));

  const Tensor takes_part = logical_not(hidden);  // the conventions are opposite
  const Tensor sdpa = nn::scaled_dot_product_attention(hand.q, hand.k, hand.v, takes_part);
  const Tensor y = matmul(hand.weights, hand.v);
  group.add("against SDPA, the mask turned round", "equal", relative_difference(sdpa, y),
            at_most(1e-15));
  const Tensor wrong = nn::scaled_dot_product_attention(hand.q, hand.k, hand.v, hidden);
  group.add("against SDPA, the mask not turned round", "wrong", relative_difference(wrong, y),
            at_least(0.1));

  const Tensor order = multinomial(ones({T}, f64), T, false, generator);
  const Tensor of_shuffled = by_hand(module, index_select(x, 1, order), {}).y;
  const Tensor shuffled = index_select(by_hand(module, x, {}).y, 1, order);
  group.add("|f(PX) - P f(X)| without a mask", "0", largest_difference(of_shuffled, shuffled),
            at_most(1e-14));
}

void one_head(Group& group, Generator& generator) {
  const Tape::Pause inference;
  const nn::MultiHeadAttention module = module_with(1, generator);
  const Tensor x = randn({B, T, d}, f64, generator);
  const Tensor hidden = nn::Mask::causal().hidden({T, T});
  const Tensor single = single_head(module, x, hidden);
  group.add("h = 1 by hand against a single head", "equal",
            largest_difference(by_hand(module, x, hidden).y, single), at_most(1e-15));
  group.add("h = 1, nn::MultiHeadAttention against it", "equal",
            largest_difference(module(x, nn::Mask::causal()), single), at_most(1e-15));
}

// The worst error in units of what is allowed.
double worst(const GradcheckReport& report) {
  if (!report.ok) return std::numeric_limits<double>::infinity();
  return std::abs(report.analytic - report.numeric) / report.tolerance;
}

void own_operation(Group& group, Generator& generator) {
  const std::vector<Tensor> qkv = {randn({T, 4}, f64, generator), randn({T, 4}, f64, generator),
                                   randn({T, 5}, f64, generator)};
  const auto attention = [](const std::vector<Tensor>& in) {
    return five_line_attention(in[0], in[1], in[2], nn::Mask::causal());
  };
  const GradcheckReport first = gradcheck(attention, qkv);
  const GradcheckReport second = gradgradcheck(attention, qkv);
  group.add("gradcheck of the five lines, err / tolerance", "passes", worst(first), at_most(1),
            first.ok ? "" : to_string(first));
  group.add("the same to second order", "", worst(second), at_most(1),
            second.ok ? "" : to_string(second));
}

// The NaN of left padding in the parameters' gradients, where it ends a training run, and its
// cures.
void left_padded_module(Group& group, Generator& generator) {
  const nn::MultiHeadAttention module = module_with(heads, generator);
  const Tensor x = randn({B, T, d}, f64, generator);
  const Tensor is_pad = tensor({{0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}}, DType::boolean);
  const nn::Mask mask = nn::Mask::causal() & nn::Mask::padding(is_pad);
  const Tensor real = unsqueeze(to(logical_not(is_pad), f64), 2);
  const Tensor upstream = randn({B, T, d}, f64, generator) * real;  // 0 at the pads
  using Attention = std::function<Tensor(const Tensor& x)>;
  const auto nan_gradients = [&](const Attention& attention) {
    Tape tape;
    const Gradients g = tape.gradient(attention(x), module.parameters(), upstream);
    double count = 0;
    for (const Tensor& parameter : module.parameters())
      count += any(isnan(g[parameter])).item() != 0;
    return count;
  };
  const auto raw = [&](const nn::Mask& hiding) {
    return [&, hidden = hiding.hidden({B, heads, T, T})](const Tensor& in) {
      return by_hand(module, in, hidden).y;
    };
  };
  const auto with_bias = [&](const Tensor& in) {  // finite, added to the scores
    const Tensor bias =
        masked_fill(zeros({B, heads, T, T}, f64), mask.hidden({B, heads, T, T}), -1e9);
    return module(in, in, in, {}, bias);
  };
  const auto ours = [&](const Tensor& in) { return module(in, mask); };
  group.add("left padding, -inf: NaN parameters, of 4", "NaN", nan_gradients(raw(mask)), exactly(3),
            "all but out_proj.bias, whose gradient is a sum of dY");
  group.add("cure: -1e9 added to hidden scores", "0", nan_gradients(with_bias), exactly(0));
  group.add("cure: every query may see itself", "0", nan_gradients(raw(mask | nn::Mask::window(1))),
            exactly(0));
  group.add("none needed: nn::MultiHeadAttention", "0", nan_gradients(ours), exactly(0));
}

}  // namespace

Group reference_self_test(int) {
  Group group{"self-test", "The reference implementation's self-test (section B)",
              "B 2, T 6, d 8, 4 heads; the second sequence is shorter"};
  Generator generator(20);
  multi_head(group, generator);
  one_head(group, generator);
  own_operation(group, generator);
  left_padded_module(group, generator);
  return group;
}

}  // namespace tapehead::program::lecture
