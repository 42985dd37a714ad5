#include "formulas.h"

#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>

namespace tapehead::program::lecture {

// ---- attention ----------------------------------------------------------------------------------

Tensor Head::scores(const Tensor& x) const {
  const Tensor q = matmul(x, w_q);
  const Tensor k = matmul(x, w_k);
  const double d_k = static_cast<double>(w_k.size(1));
  return matmul(q, transposed(k), {.scale = 1 / std::sqrt(d_k)});
}

Tensor Head::weights(const Tensor& x, const nn::Mask& mask) const {
  const Tensor q = matmul(x, w_q);
  const Tensor k = matmul(x, w_k);
  return nn::attention_weights(q, k, {.mask = mask});
}

Tensor Head::operator()(const Tensor& x, const nn::Mask& mask) const {
  const Tensor q = matmul(x, w_q);
  const Tensor k = matmul(x, w_k);
  const Tensor v = matmul(x, w_v);
  return nn::attention(q, k, v, {.mask = mask});
}

Head random_head(std::int64_t d, std::int64_t d_k, Generator& generator) {
  const auto projection = [&] {
    return randn({d, d_k}, f64, generator) / std::sqrt(static_cast<double>(d));
  };
  Head head;
  head.w_q = projection();
  head.w_k = projection();
  head.w_v = projection();
  return head;
}

FiveLines five_lines(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a,
                     const Tensor& y, const Tensor& dy, double s) {
  const Tensor dv = matmul(transposed(a), dy);
  const Tensor da = matmul(dy, transposed(v));
  const Tensor D = sum(dy * y, {-1}, true);
  const Tensor ds = a * (da - D);
  const Tensor dq = matmul(ds, k, {.scale = s}), dk = matmul(transposed(ds), q, {.scale = s});
  return {dq, dk, dv, ds};
}

Tensor project(const nn::MultiHeadAttention& module, const Tensor& x, Part part) {
  const std::int64_t d = module.options().embed_dim;
  const Tensor weight = narrow(module.in_proj_weight, 0, part * d, d);
  if (!module.in_proj_bias.defined()) return linear(x, weight);
  return linear(x, weight, narrow(module.in_proj_bias, 0, part * d, d));
}

Tensor masked_softmax(const Tensor& scores, const Tensor& hidden, double hidden_score) {
  if (!hidden.defined()) return softmax(scores, -1);
  return softmax(masked_fill(scores, hidden, hidden_score), -1);
}

// ---- small tensors ------------------------------------------------------------------------------

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

Tensor identity(std::int64_t size) { return eye_at(size, size, 0); }

Tensor eye_at(std::int64_t rows, std::int64_t columns, std::int64_t diagonal) {
  return triu(tril(ones({rows, columns}, f64), diagonal), diagonal);
}

// ---- measures -----------------------------------------------------------------------------------

double largest(const Tensor& x) { return amax(abs(x)).item(); }

double largest_difference(const Tensor& a, const Tensor& b) { return largest(a - b); }

double relative_difference(const Tensor& a, const Tensor& b) {
  return norm(a - b).item() / norm(b).item();
}

std::int64_t rows_with_nan(const Tensor& x) {
  return sum(to(any(isnan(x), {-1}), f64)).item<std::int64_t>();
}

// ---- linear algebra -----------------------------------------------------------------------------

namespace {

// x without its part along the column `direction`.
Tensor without(const Tensor& x, const Tensor& direction) {
  const Tensor share = matmul(transposed(direction), x);
  return x - matmul(direction, share);
}

}  // namespace

// Modified Gram-Schmidt: each column of A in turn is taken out of B and of the columns after it.
Tensor least_squares_residual(Tensor a, Tensor b) {
  for (std::int64_t left = a.size(1); left > 0; --left) {
    const Tensor column = narrow(a, 1, 0, 1);
    const Tensor direction = column / norm(column);
    b = without(b, direction);
    a = without(narrow(a, 1, 1, left - 1), direction);
  }
  return b;
}

// The same with the longest column first, until none is left that is more than rounding.
std::int64_t numerical_rank(Tensor x) {
  const double smallest = 1e-10 * norm(x).item();
  for (std::int64_t rank = 0;; ++rank) {
    const Tensor lengths = norm(x, 2, {0});
    if (amax(lengths).item() <= smallest) return rank;
    const Tensor column = index_select(x, 1, reshape(argmax(lengths), {1}));
    x = without(x, column / norm(column));
  }
}

}  // namespace tapehead::program::lecture
