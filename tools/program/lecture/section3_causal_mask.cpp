// Section 3.1, the causal mask: no position's output depends on a later input.
#include "draws.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <functional>

namespace tapehead::program::lecture {

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

}  // namespace tapehead::program::lecture
