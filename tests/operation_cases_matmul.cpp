// Matrix products.
#include "support/operation_case.h"

#include <tapehead/ops/einsum.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/matmul.h>

namespace tapehead::tests {

Rows matmul_rows() {
  // A row in as few lines as it needs. The rule of fused_attention subtracts dot products from each
  // other, which costs f32 a few more roundings, and more where a query sees only a key or two.
  // clang-format off
  return {
      row("matmul", {real({2, 3}), real({3, 4})}, [](In x) { return matmul(x[0], x[1]); })
          .saves("a, b").also({3}, {3}).also({2, 3}, {3}).also({3}, {3, 2}).also({1, 1}, {1, 1})
          .also({2, 2, 3}, {2, 3, 2}).also({2, 2, 3}, {3, 2}).also({2, 3}, {2, 3, 2})
          .also({2, 1, 2, 3}, {3, 3, 2}).also({3}, {2, 3, 2}).also({2, 2, 3}, {3})
          .also({0, 3}, {3, 2}).also({2, 0}, {0, 3}).also({0, 2, 3}, {3, 2}),
      row("matmul/scale", {real({2, 3, 2}), real({2, 2, 3})},
          [](In x) { return matmul(x[0], x[1], {.scale = 0.5}); }).saves("a, b"),
      row("bmm", {real({2, 2, 3}), real({2, 3, 4})}, [](In x) { return bmm(x[0], x[1]); })
          .saves("matmul.a, matmul.b").also({1, 1, 1}, {1, 1, 1}).also({0, 2, 3}, {0, 3, 2}),
      row("dot", {real({4}), real({4})}, [](In x) { return dot(x[0], x[1]); })
          .saves("matmul.a, matmul.b").also({1}, {1}).also({0}, {0}),
      row("outer", {real({3}), real({2})}, [](In x) { return outer(x[0], x[1]); })
          .saves("matmul.a, matmul.b").also({1}, {1}).also({0}, {2}),
      row("linear", {real({2, 3}), real({4, 3}), real({4})},
          [](In x) { return linear(x[0], x[1], x[2]); }).saves("x, weight").also({3}, {2, 3}, {2})
          .also({2, 2, 3}, {1, 3}, {1}).also({0, 3}, {2, 3}, {2}).also({2, 0}, {3, 0}, {3}),
      row("linear/no_bias", {real({2, 3}), real({4, 3})}, [](In x) { return linear(x[0], x[1]); })
          .saves("x, weight").also({3}, {2, 3}).also({0, 3}, {2, 3}),
      row("einsum", {real({2, 3}), real({3, 4})},
          [](In x) { return einsum("ij,jk->ki", {x[0], x[1]}); }).saves("matmul.a, matmul.b")
          .also({1, 1}, {1, 1}).also({0, 3}, {3, 2}),
      row("einsum/trace", {real({3, 3})}, [](In x) { return einsum("ii->", {x[0]}); }).also({1, 1})
          .also({0, 0}),
      row("einsum/three", {real({2, 3}), real({3}), real({2, 4})},
          [](In x) { return einsum("ij,j,ik->ik", {x[0], x[1], x[2]}); })
          .saves("matmul.a, matmul.b, mul.a, mul.b"),
      row("fused_attention", {real({2, 2, 3, 2}), real({2, 1, 4, 2}), real({2, 1, 4, 3})},
          [](In x) { return fused_attention(x[0], x[1], x[2], {.scale = 0.7}); })
          .saves("q, k, v, y, row_max, row_sum").f32_tolerance(20 * 0x1p-24).also({3, 2}, {4, 2}, {4, 3})
          .also({1, 1}, {1, 1}, {1, 1}).also({0, 2}, {4, 2}, {4, 3}),
      row("fused_attention/bias",
          {real({2, 3, 2}), real({2, 3, 2}), real({2, 3, 2}), real({3, 3}), mask({2, 3, 3})},
          [](In x) {
            const FusedAttentionOptions options{.causal_offset = 0, .hidden = x[4], .bias = x[3]};
            return fused_attention(x[0], x[1], x[2], options);
          }).saves("q, k, v, y, row_max, row_sum, hidden, bias").f32_tolerance(64 * 0x1p-24),
  };
  // clang-format on
}

}  // namespace tapehead::tests
