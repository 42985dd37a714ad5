// The lecture's formulas that several groups use, and what is measured on tensors. All in f64.
#pragma once

#include <tapehead/core/random.h>
#include <tapehead/nn/multi_head_attention.h>

#include <limits>

namespace tapehead::program::lecture {

constexpr DType f64 = DType::f64;

/// One head of self-attention (section 1.3): Q = X W_Q, K = X W_K, V = X W_V.
struct Head {
  Tensor w_q, w_k;  ///< (d, d_k)
  Tensor w_v;       ///< (d, d_v)

  /// S = Q K^T / sqrt(d_k), for X (T, d).
  Tensor scores(const Tensor& x) const;
  /// A = softmax(S), masked.
  Tensor weights(const Tensor& x, const nn::Mask& mask = {}) const;
  /// Y = A V.
  Tensor operator()(const Tensor& x, const nn::Mask& mask = {}) const;
};

/// Projections drawn from N(0, 1/d), so that scores of inputs with variance 1 have variance 1.
Head random_head(std::int64_t d, std::int64_t d_k, Generator& generator);

/// The five lines of section 2.3: the gradients of Y = A V, A = softmax(s Q K^T), from dY.
struct FiveLines {
  Tensor dq, dk, dv, ds;
};
FiveLines five_lines(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a,
                     const Tensor& y, const Tensor& dy, double s);

/// X W_Q, X W_K or X W_V of all heads side by side, (..., T, d): what a module projects to.
enum Part : std::int64_t { query, key, value };
Tensor project(const nn::MultiHeadAttention& module, const Tensor& x, Part part);

/// softmax over the keys that are not hidden, by the raw operations, which follow IEEE: hidden
/// scores become `hidden_score`, and a row of -inf NaN. `hidden` undefined hides nothing.
Tensor masked_softmax(const Tensor& scores, const Tensor& hidden,
                      double hidden_score = -std::numeric_limits<double>::infinity());

Tensor transposed(const Tensor& x);  ///< of the last two dims
Tensor identity(std::int64_t size);  ///< (size, size)
Tensor eye_at(std::int64_t rows, std::int64_t columns, std::int64_t diagonal);  ///< 1 there, else 0

double largest(const Tensor& x);  ///< of the absolute values; NaN if there is one
double largest_difference(const Tensor& a, const Tensor& b);
double relative_difference(const Tensor& a, const Tensor& b);  ///< |a - b| / |b|
std::int64_t rows_with_nan(const Tensor& x);                   ///< of a matrix

/// What the best linear map of A's columns leaves of B: B - A M for the M of least squares, with A
/// (n, d) and B (n, m).
Tensor least_squares_residual(Tensor a, Tensor b);
/// The number of directions that a matrix has, to a relative 1e-10.
std::int64_t numerical_rank(Tensor x);

}  // namespace tapehead::program::lecture
