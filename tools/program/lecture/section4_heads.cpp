// Section 4.1: one softmax gives one distribution, so that one head cannot take some features from
// one token and the rest from another; two heads can.
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <algorithm>
#include <numbers>

namespace tapehead::program::lecture {

namespace {

// Sequences of 10 tokens, of which the last 8 have two tokens before them.
constexpr std::int64_t d = 8, T = 10, queries = T - 2;

Tensor previous(const Tensor& x) { return narrow(x, 1, 1, queries); }
Tensor before_previous(const Tensor& x) { return narrow(x, 1, 0, queries); }

// The first half of the features of the token before, the second half of the one before that.
Tensor target_of(const Tensor& x) {
  const Tensor first = narrow(previous(x), 2, 0, d / 2);
  const Tensor second = narrow(before_previous(x), 2, d / 2, d / 2);
  return cat({first, second}, 2);
}

// The relative error of the best linear map (W_V W_O) on what one head reads, when its weights are
// `share` for the token before and the rest for the one before that.
double error_of_one_head(const Tensor& x, double share) {
  const Tensor weights = eye_at(queries, T, 1) * share + eye_at(queries, T, 0) * (1 - share);
  const Tensor nothing = zeros({queries, d}, f64), no_keys = zeros({T, d}, f64);
  const Tensor read = nn::attention(nothing, no_keys, x, {.bias = log(weights)});
  const Tensor target = reshape(target_of(x), {-1, d});
  return norm(least_squares_residual(reshape(read, {-1, d}), target)).item() / norm(target).item();
}

double error_of_the_best_head(const Tensor& x) {
  double best = 1;
  for (int eighths = 0; eighths <= 8; ++eighths)
    best = std::min(best, error_of_one_head(x, eighths / 8.0));
  return best;
}

// Head 0 sees the token before only, head 1 the one before that; W_V and W_O are the identity.
Tensor two_heads(const Tensor& x) {
  nn::MultiHeadAttention attention({.embed_dim = d, .num_heads = 2, .bias = false, .dtype = f64});
  copy_(attention.in_proj_weight, cat({zeros({2 * d, d}, f64), identity(d)}));
  copy_(attention.out_proj.weight, identity(d));
  const Tensor one_before = eye_at(T, T, -1), two_before = eye_at(T, T, -2);
  const Tensor sees = gt(stack({one_before, two_before}), 0);
  return narrow(attention(x, nn::Mask::keep(unsqueeze(sees, 0))), 1, 2, queries);
}

std::vector<double> errors(std::int64_t sequences, Generator& generator) {
  const Tape::Pause inference;
  const Tensor x = randn({sequences, T, d}, f64, generator);
  return {error_of_the_best_head(x), relative_difference(two_heads(x), target_of(x))};
}

}  // namespace

Group one_head_or_two(int repeats) {
  constexpr double one_half_lost = 1 / std::numbers::sqrt2;
  const auto drawn = draw(repeats, [](Generator& generator) { return errors(32, generator); });
  const auto many = draw([](Generator& generator) { return errors(600, generator); });
  Group group{
      "8", "One head against two (section 4.1)",
      "d 8, sequences of 10 tokens from N(0, 1); 32 of them have 256 queries, 600 have 4800"};
  group.add("one head, best weights and best map", "0.690", drawn[0].median, spread(drawn[0]),
            "weights share / 1 - share in steps of 1/8; the map by least squares");
  group.add("one head, many sequences: near 1/sqrt(2)", "0.707", many[0].median,
            Bound{Bound::On::ours, one_half_lost * 0.995, one_half_lost * 1.005},
            "a map of 8 features fits 8 of n queries, so that sqrt((1 - 8/n) / 2) is left");
  group.add("two heads of d / 2", "0", many[1].largest, exactly(0));
  return group;
}

}  // namespace tapehead::program::lecture
