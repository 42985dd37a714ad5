// Section 2, scaled dot-product attention: what it does when it was just initialised (2.1), and
// that its output is a convex combination (2.2).
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/statistics.h>

#include <algorithm>
#include <cmath>

namespace tapehead::program::lecture {

Group convex_hull(int) {
  constexpr std::int64_t T = 20, d = 16;
  const std::vector<Draws> drawn = draw([](Generator& generator) {
    const Tensor x = randn({T, d}, f64, generator);
    const Head head = random_head(d, d, generator);
    const Tensor v = matmul(x, head.w_v), y = head(x), A = head.weights(x);
    const double above = amax(y - amax(v, {0})).item(), below = amax(amin(v, {0}) - y).item();
    return std::vector<double>{std::max(above, below), -amin(A).item(),
                               largest(sum(A, {-1}) - 1.0)};
  });
  Group group{"3", "The output lies in the convex hull of the values (section 2.2)",
              "T 20, d 16; the largest of 20 seeds"};
  group.add("y_ik outside [min_j v_jk, max_j v_jk] by", "<= 0", drawn[0].largest, at_most(1e-15),
            "the bound allows for rounding of the sum");
  group.add("minus the smallest weight", "<= 0", drawn[1].largest, at_most(0));
  group.add("|sum of a row's weights - 1|", "0", drawn[2].largest, at_most(1e-15));
  return group;
}

namespace {

// Per head, the scores q k^T / sqrt(d_k) of self-attention on x (T, d).
Tensor scores_of(const nn::MultiHeadAttention& attention, const Tensor& x) {
  const std::int64_t heads = attention.options().num_heads;
  const Tensor q = nn::split_heads(project(attention, x, query), heads);
  const Tensor k = nn::split_heads(project(attention, x, key), heads);
  const double d_k = static_cast<double>(q.size(-1));
  return matmul(q, transposed(k), {.scale = 1 / std::sqrt(d_k)});
}

// The mean over rows of -sum(A log A).
double entropy(const Tensor& weights) {
  const Tensor terms = weights * log(weights);
  return -mean(sum(terms, {-1})).item();
}

}  // namespace

Group initial_attention(int repeats) {
  constexpr std::int64_t T = 128, d = 512, heads = 8;
  const std::vector<Draws> drawn = draw(repeats, [](Generator& generator) {
    const Tape::Pause inference;
    const nn::MultiHeadAttention attention({.embed_dim = d, .num_heads = heads}, generator);
    const Tensor x = randn({T, d}, DType::f32, generator);
    const Tensor S = scores_of(attention, x);
    const Tensor A = softmax(S, -1);
    return std::vector<double>{tapehead::std(S).item(), mean(amax(A, {-1})).item(), entropy(A)};
  });
  Group group{"11", "Attention just initialised is nearly uniform (section 2.1)",
              "d 512, 8 heads, T 128, X from N(0, 1), projections as torch.nn.Linear's, in f32"};
  group.add("standard deviation of the scores", "0.333", drawn[0].median, spread(drawn[0]));
  group.add("largest weight of a row, mean", "0.018", drawn[1].median, spread(drawn[1]));
  group.add("weight if uniform, 1 / T", "0.008", 1.0 / T, rounds_to("0.008"));
  group.add("entropy of a row, mean", "4.797", drawn[2].median, spread(drawn[2]));
  const double highest = entropy(full({1, T}, 1.0 / T, f64));
  group.add("entropy if uniform, log T", "4.852", highest, rounds_to("4.852"));
  return group;
}

}  // namespace tapehead::program::lecture
