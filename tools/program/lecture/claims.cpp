// Group 12: what the lecture's text claims without a figure.
#include "claims_about_decoding.h"
#include "formulas.h"
#include "groups.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>

namespace tapehead::program::lecture {

namespace {

// ---- section 3: masks ---------------------------------------------------------------------------

// x (T, d) for queries, keys and values.
void masks_of_pytorch(Group& group, const Tensor& x) {
  const std::int64_t T = x.size(0);
  const auto error_of_both = [&] {
    try {
      const Tensor mask = ones({T, T}, DType::boolean);
      nn::scaled_dot_product_attention(x, x, x, mask, {.is_causal = true});
    } catch (const ValueError&) {
      return 1;
    }
    return 0;
  };
  group.add("A.1 a mask together with is_causal throws", "error", error_of_both(), exactly(1));
  const Tensor last = narrow(x, 0, T - 1, 1);
  const Tensor decoded = nn::scaled_dot_product_attention(last, x, x, {}, {.is_causal = true});
  group.add("A.1 is_causal, L 1, S 6: |y - first value|", "sees 1 key",
            largest_difference(decoded, narrow(x, 0, 0, 1)), exactly(0));
}

void triangles(Group& group, const Tensor& scores) {
  const auto weights_with = [&](std::int64_t diagonal) {
    return masked_softmax(scores, gt(triu(ones_like(scores), diagonal), 0));
  };
  group.add("A.4 triu(0) for the mask: NaN in row 0", "1",
            static_cast<double>(rows_with_nan(narrow(weights_with(0), 0, 0, 1))), exactly(1));
  group.add("A.4 triu(0): NaN in rows 1 to 5", "0",
            static_cast<double>(rows_with_nan(narrow(weights_with(0), 0, 1, 5))), exactly(0));
  group.add("A.4 triu(1): rows with NaN", "0", static_cast<double>(rows_with_nan(weights_with(1))),
            exactly(0));
}

void masks(Group& group, Generator& generator) {
  constexpr std::int64_t T = 6, d = 4;
  const Head head = random_head(d, d, generator);
  const auto masked_before = [&](const Tensor& x) { return head(x, nn::Mask::causal()); };
  const auto masked_after = [&](const Tensor& x) {
    const Tensor A = tril(softmax(head.scores(x), -1));
    const Tensor v = matmul(x, head.w_v);
    return matmul(A, v);
  };
  const Tensor x = randn({T, d}, f64, generator), other = randn({1, d}, f64, generator);
  const Tensor changed = cat({narrow(x, 0, 0, T - 1), other});
  // How much the outputs before the last token change when the last token does.
  const auto leak = [&](const auto& attention) {
    const Tensor before = attention(x), after = attention(changed);
    return largest_difference(narrow(after, 0, 0, T - 1), narrow(before, 0, 0, T - 1));
  };
  group.add("3.1 mask before softmax: change by future", "0", leak(masked_before), exactly(0));
  group.add("3.1 mask after softmax: change by future", "leaks", leak(masked_after), at_least(1e-3),
            "through the denominator, which still holds exp(S_ij) of the future");
  const Tensor row_sums = sum(tril(softmax(head.scores(x), -1)), {-1});
  group.add("3.1 mask after softmax: smallest row sum", "not 1", amin(row_sums).item(),
            at_most(0.9));
  masks_of_pytorch(group, x);
  triangles(group, head.scores(x));
}

// ---- sections 1.4 and 4.5: circuits -------------------------------------------------------------

// MHA(X) by heads: the sum of softmax(X (W_Q W_K^T) X^T / sqrt(d_k)) X (W_V W_O), on matrices that
// are products over a head's features. PyTorch's weights are the transposes of the lecture's W.
Tensor sum_of_circuits(const nn::MultiHeadAttention& attention, const Tensor& x) {
  const std::int64_t d = attention.options().embed_dim, heads = attention.options().num_heads;
  const std::int64_t d_k = d / heads;
  Tensor y = zeros_like(x);
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto in = [&](std::int64_t part) {
      return transposed(narrow(attention.in_proj_weight, 0, part * d + head * d_k, d_k));
    };
    const Tensor w_o = transposed(narrow(attention.out_proj.weight, 1, head * d_k, d_k));
    const Tensor qk = matmul(in(0), transposed(in(1)));  // (d, d), of rank d_k
    const Tensor ov = matmul(in(2), w_o);                // (d, d), of rank d_k
    const Tensor xqk = matmul(x, qk);
    const double s = 1 / std::sqrt(static_cast<double>(d_k));
    const Tensor A = softmax(matmul(xqk, transposed(x), {.scale = s}), -1);
    const Tensor Ax = matmul(A, x);
    y = y + matmul(Ax, ov);
  }
  return y;
}

void circuits(Group& group, Generator& generator) {
  constexpr std::int64_t T = 10, d = 8, d_k = 2, heads = d / d_k;
  const Tape::Pause inference;
  const nn::MultiHeadAttention attention(
      {.embed_dim = d, .num_heads = heads, .bias = false, .dtype = f64}, generator);
  const Tensor x = randn({T, d}, f64, generator);
  group.add("4.5 MHA against its sum of circuits", "equal",
            relative_difference(sum_of_circuits(attention, x), attention(x)), at_most(1e-14));

  const Head head = random_head(d, d_k, generator);
  // R = 1 + u w^T and its inverse by Sherman and Morrison: R^-1 = 1 - u w^T / (1 + w^T u).
  const Tensor u = randn({d_k}, f64, generator), w = randn({d_k}, f64, generator);
  const Tensor uw = outer(u, w);
  const Tensor R = identity(d_k) + uw, inverse = identity(d_k) - uw / (dot(u, w) + 1.0);
  const Head other{matmul(head.w_q, R), matmul(head.w_k, transposed(inverse)), head.w_v};
  group.add("4.5 (W_Q R, W_K R^-T): scores", "equal",
            relative_difference(other.scores(x), head.scores(x)), at_most(1e-13));
  group.add("4.5 |W_Q R - W_Q| / |W_Q| meanwhile", "another W_Q",
            relative_difference(other.w_q, head.w_q), at_least(0.1));
  group.add("1.4 rank of scores, T 10, d 8, d_k 2", "2",
            static_cast<double>(numerical_rank(head.scores(x))), at_most(d_k));
  const Head wide = random_head(d, d, generator);
  group.add("1.4 the same with d_k 8", "8", static_cast<double>(numerical_rank(wide.scores(x))),
            exactly(d), "so it is d_k that limits the rank");
  const Head tied{wide.w_q, wide.w_q, wide.w_v};
  const Tensor S = tied.scores(x);
  group.add("1.4 W_Q = W_K: |S - S^T| / |S|", "0", relative_difference(transposed(S), S),
            at_most(1e-15));
}

void einsums(Group& group, Generator& generator) {
  const Tensor q = randn({2, 3, 5, 4}, f64, generator), k = randn({2, 3, 6, 4}, f64, generator);
  const Tensor v = randn({2, 3, 6, 7}, f64, generator);
  const Tensor S = einsum("bhqd,bhkd->bhqk", {q, k}), y = einsum("bhqk,bhkd->bhqd", {S, v});
  const Tensor qk = sum(unsqueeze(q, -2) * unsqueeze(k, -3), {-1});
  const Tensor Sv = sum(unsqueeze(S, -1) * unsqueeze(v, -3), {-2});
  group.add("A.6 einsum bhqd,bhkd->bhqk against sums", "equal", relative_difference(S, qk),
            at_most(1e-15));
  group.add("A.6 einsum bhqk,bhkd->bhqd against sums", "equal", relative_difference(y, Sv),
            at_most(1e-15));
}

}  // namespace

Group claims_without_figures(int) {
  Group group{"12", "What the text claims without a figure",
              "the lecture's section stands before each; decoding has d 16, 4 heads"};
  Generator generator(12);
  masks(group, generator);
  circuits(group, generator);
  einsums(group, generator);
  claims_about_decoding(group, generator);
  return group;
}

}  // namespace tapehead::program::lecture
