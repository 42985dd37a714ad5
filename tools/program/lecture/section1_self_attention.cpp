// Section 1, self-attention: why three projections (1.4), and that order is invisible (1.5).
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/search.h>

namespace tapehead::program::lecture {

namespace {

// Percentage of words whose highest score is their own.
double looking_at_themselves(const Tensor& scores) {
  const Tensor own = eq(argmax(scores, -1), arange(scores.size(0)));
  return 100 * mean(to(own, f64)).item();
}

// |S - S^T| / |S|
double asymmetry(const Tensor& scores) { return relative_difference(transposed(scores), scores); }

// A random order of 0 .. n - 1.
Tensor permutation(std::int64_t n, Generator& generator) {
  return multinomial(ones({n}, f64), n, false, generator);
}

}  // namespace

Group projections_break_symmetry(int repeats) {
  constexpr std::int64_t words = 20, d = 128, d_k = 32;
  const std::vector<Draws> drawn = draw(repeats, [](Generator& generator) {
    const Tensor x = randn({words, d}, f64, generator);
    const Head head = random_head(d, d_k, generator);
    const Tensor plain = matmul(x, transposed(x)), projected = head.scores(x);
    return std::vector<double>{looking_at_themselves(plain), looking_at_themselves(projected),
                               asymmetry(plain), asymmetry(projected)};
  });
  Group group{"1", "Projections break symmetry (section 1.4)",
              "20 words, d 128, d_k 32, X from N(0, 1), projections from N(0, 1/d)"};
  group.add("words that look at themselves, S = X X^T, %", "100", drawn[0].median, exactly(100));
  group.add("words that look at themselves, projected, %", "0", drawn[1].median, spread(drawn[1]),
            "chance alone gives 1 word in 20, 5 %: whether a draw shows none is luck");
  group.add("|S - S^T| / |S|, S = X X^T", "0", drawn[2].largest, at_most(1e-15));
  group.add("|S - S^T| / |S|, projected", "1.36", drawn[3].median, spread(drawn[3]));
  return group;
}

Group permutation_equivariance(int repeats) {
  constexpr std::int64_t T = 20, d = 32;
  const std::vector<Draws> drawn = draw(repeats, [](Generator& generator) {
    const Tensor x = randn({T, d}, f64, generator);
    const Head f = random_head(d, d, generator);
    const Tensor order = permutation(T, generator);
    const auto P = [&](const Tensor& rows) { return index_select(rows, 0, order); };
    const auto error = [&](const nn::Mask& mask) {
      const Tensor of_shuffled = f(P(x), mask), shuffled = P(f(x, mask));
      return largest_difference(of_shuffled, shuffled);
    };
    return std::vector<double>{error({}), error(nn::Mask::causal())};
  });
  Group group{"2", "Permutation equivariance: f(PX) = P f(X) (section 1.5)",
              "T 20, d 32, X from N(0, 1), projections from N(0, 1/d), P a random order"};
  group.add("largest |f(PX) - P f(X)|", "6.7e-16", drawn[0].largest, at_most(1e-14),
            "the largest of 20 seeds; rounding, since sums are taken in another order");
  group.add("the same under the causal mask", "2.89", drawn[1].median, spread(drawn[1]));
  return group;
}

}  // namespace tapehead::program::lecture
