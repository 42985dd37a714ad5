// scaled_dot_product_attention: PyTorch's reading of its arguments.
#include "support/attention.h"
#include "support/checks.h"
#include "support/gradients.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/sdpa.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::both_paths;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::f64;
using tests::infinity;
using tests::noise;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("ATTN-1 a bool mask of scaled_dot_product_attention is true where a key takes part") {
  const Tensor q = zeros({1, 1}, DType::f64), k = zeros({2, 1}, DType::f64), v = f64({{10}, {20}});
  for (const AttentionPath path : both_paths)
    CHECK(scaled_dot_product_attention(q, k, v, boolean({1, 0}), {.path = path}).item() == 10);
}

TEST_CASE("ATTN-2 a floating mask of scaled_dot_product_attention is added") {
  const Tensor q = zeros({1, 1}, DType::f64), k = zeros({2, 1}, DType::f64), v = f64({{1}, {3}});
  for (const AttentionPath path : both_paths) {
    const auto with = [&](const Tensor& mask) {
      return scaled_dot_product_attention(q, k, v, mask, {.path = path}).item();
    };
    CHECK(with(f64({0, std::log(3.0)})) == doctest::Approx(2.5).epsilon(1e-14));
    CHECK(with(f64({1, 0})) ==
          doctest::Approx((std::exp(1.0) + 3) / (std::exp(1.0) + 1)).epsilon(1e-14));
  }
}

TEST_CASE("ATTN-3 is_causal is aligned at the start") {
  const Tensor k = zeros({3, 1}, DType::f64), v = f64({{1}, {2}, {6}});
  for (const AttentionPath path : both_paths) {
    const auto attend = [&](std::int64_t queries) {
      const Tensor q = zeros({queries, 1}, DType::f64);
      return scaled_dot_product_attention(q, k, v, {}, {.is_causal = true, .path = path})
          .to_vector();
    };
    CHECK(attend(1) == Values{1});
    CHECK(attend(2) == Values{1, 1.5});
    CHECK(attend(4) == Values{1, 1.5, 3, 3});
  }
}

TEST_CASE("the formula that PyTorch documents, with gradients of both orders") {
  const auto f = [](const std::vector<Tensor>& in) {
    return scaled_dot_product_attention(in[0], in[1], in[2], in[3], {.scale = 0.3});
  };
  const std::vector<Tensor> inputs = {noise({2, 3, 2}, 1), noise({2, 4, 2}, 2), noise({2, 4, 3}, 3),
                                      noise({3, 4}, 4)};
  const Tensor product = matmul(inputs[0], transpose(inputs[1], -2, -1));
  const Tensor weights = softmax(product * 0.3 + inputs[3], -1);
  CHECK(allclose(f(inputs), matmul(weights, inputs[2]), 1e-14, 1e-14));
  check_first_order(f, inputs);
  check_second_order(f, inputs, {.fast = true});
}

TEST_CASE("the scale is 1 / sqrt(E) unless given, and 0 is a scale") {
  const Tensor q = noise({2, 4}, 1), k = noise({3, 4}, 2), v = noise({3, 2}, 3);
  CHECK(equal(scaled_dot_product_attention(q, k, v),
              scaled_dot_product_attention(q, k, v, {}, {.scale = 0.5})));
  const Tensor uniform = scaled_dot_product_attention(q, k, v, {}, {.scale = 0});
  CHECK(allclose(uniform, matmul(ones({2, 3}, DType::f64) * (1.0 / 3), v), 1e-14, 1e-14));
}

TEST_CASE("a mask broadcasts from the right, as in PyTorch: three dims are heads, not a batch") {
  const Tensor q = noise({2, 3, 2, 2}, 1), k = noise({2, 3, 4, 2}, 2);
  const Tensor by_head = boolean({{{1, 0, 1, 1}}, {{1, 1, 0, 1}}, {{0, 1, 1, 1}}});
  const Tensor expected = scaled_dot_product_attention(q, k, k, unsqueeze(by_head, 0));
  CHECK(equal(scaled_dot_product_attention(q, k, k, by_head), expected));
  CHECK(equal(select(expected, 1, 2), attention(select(q, 1, 2), select(k, 1, 2), select(k, 1, 2),
                                                {.mask = Mask::keep(boolean({0, 1, 1, 1}))})));
}

TEST_CASE("MASK-1 a query that sees no key gives 0 and no gradient, whatever hides its keys") {
  const Tensor q = parameter(noise({2, 3}, 1)), k = parameter(noise({2, 3}, 2));
  const Tensor v = parameter(noise({2, 2}, 3)), upstream = f64({{0, 0}, {5, -7}});
  for (const AttentionPath path : both_paths)
    for (const Tensor& mask : {boolean({{1, 1}, {0, 0}}), f64({{0, 0}, {-infinity, -infinity}})}) {
      Tape tape;
      const Tensor y = scaled_dot_product_attention(q, k, v, mask, {.path = path});
      CHECK(select(y, 0, 1).to_vector() == Values{0, 0});
      // Upstream reaches the empty row alone.
      const Gradients g = tape.gradient(y, {q, k, v}, upstream);
      CHECK(g[q].to_vector() == Values(6, 0.0));
      CHECK(g[k].to_vector() == Values(6, 0.0));
      CHECK(g[v].to_vector() == Values(4, 0.0));
    }
}

TEST_CASE("ATTN-6 heads are grouped with enable_gqa, and only then") {
  const Tensor q = zeros({4, 1, 1}, DType::f64), k = zeros({2, 1, 1}, DType::f64);
  const Tensor v = f64({{{10}}, {{20}}});
  for (const AttentionPath path : both_paths) {
    CHECK(
        scaled_dot_product_attention(q, k, v, {}, {.enable_gqa = true, .path = path}).to_vector() ==
        Values{10, 10, 20, 20});
    check_throws(ErrorKind::shape, {"q f64 (4, 1, 1)", "k f64 (2, 1, 1)", "enable_gqa"},
                 [&] { scaled_dot_product_attention(q, k, v, {}, {.path = path}); });
  }
  check_throws(ErrorKind::shape, {"v f64 (2, 1, 1)", "enable_gqa"}, [&] {
    scaled_dot_product_attention(q, zeros({4, 1, 1}, DType::f64), v);
  });
  check_throws(ErrorKind::shape, {"multiple"}, [&] {
    const Tensor three = zeros({3, 1, 1}, DType::f64);
    scaled_dot_product_attention(three, k, v, {}, {.enable_gqa = true});
  });
}

TEST_CASE("dropout_p acts whenever it is not 0; with 0 nothing is drawn") {
  const Tensor q = noise({8, 3}, 1);
  manual_seed(4);
  const RandomState before = default_generator().state();
  const Tensor plain = scaled_dot_product_attention(q, q, q);
  CHECK(default_generator().state() == before);
  for (const AttentionPath path : both_paths) {
    const Tensor dropped =
        scaled_dot_product_attention(q, q, q, {}, {.dropout_p = 0.5, .path = path});
    CHECK(!allclose(dropped, plain, 1e-3, 0));
  }
  const Tensor none = scaled_dot_product_attention(q, q, q, {}, {.dropout_p = 1});
  CHECK(none.to_vector() == Values(24, 0.0));
}

TEST_CASE("arguments that scaled_dot_product_attention does not take") {
  const Tensor q = noise({2, 3, 4}, 1);
  const auto error = [&](ErrorKind kind, const char* text, const Tensor& mask,
                         const ScaledDotProductAttentionOptions& options) {
    check_throws(kind, {"scaled_dot_product_attention", text},
                 [&] { scaled_dot_product_attention(q, q, q, mask, options); });
  };
  error(ErrorKind::value, "is_causal", zeros({3, 3}, DType::boolean), {.is_causal = true});
  error(ErrorKind::value, "is_causal", zeros({3, 3}, DType::f64), {.is_causal = true});
  error(ErrorKind::dtype, "attn_mask", zeros({3, 3}, DType::i64), {});
  error(ErrorKind::dtype, "attn_mask", zeros({3, 3}, DType::f32), {});
  error(ErrorKind::value, "dropout_p", {}, {.dropout_p = -0.1});
  check_throws(ErrorKind::shape, {"(4, 3)"}, [&] {
    scaled_dot_product_attention(q, q, q, zeros({4, 3}, DType::boolean));
  });
  check_throws(ErrorKind::shape, {"(4, 3)"}, [&] {
    scaled_dot_product_attention(q, q, q, zeros({4, 3}, DType::f64));
  });
}
