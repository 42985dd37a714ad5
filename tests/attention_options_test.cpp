// What attention() offers beside masks: additive biases, grouped heads, the fused path; and the
// same through MultiHeadAttention.
#include "support/attention.h"
#include "support/checks.h"
#include "support/gradients.h"
#include "support/names.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/memory.h>
#include <tapehead/nn/mask_conversions.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::f64;
using tests::few_roundings;
using tests::infinity;
using tests::noise;
using tests::operations;

namespace {

using Values = std::vector<double>;
using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Each head of x `group` times, next to one another, by copying.
Tensor repeat_heads(const Tensor& x, std::int64_t group) {
  Shape shape = x.shape();
  const int heads = shape.rank() - 3;
  Shape wide = shape;
  wide.insert(heads + 1, group);
  shape[heads] *= group;
  const Tensor repeated = expand(unsqueeze(x, heads + 1), wide);
  return reshape(repeated, shape);
}

}  // namespace

// ---- bias --------------------------------------------------------------------------------------

TEST_CASE("ATTN-2 a bias is added to the scores, and 0 and 1 do not hide and show") {
  const Tensor q = zeros({1, 1}, DType::f64), k = zeros({2, 1}, DType::f64), v = f64({{1}, {3}});
  CHECK(attention(q, k, v, {.bias = f64({0, std::log(3.0)})}).item() ==
        doctest::Approx(2.5).epsilon(1e-14));
  CHECK(attention(q, k, v, {.bias = f64({1, 0})}).item() ==
        doctest::Approx((std::exp(1.0) + 3) / (std::exp(1.0) + 1)).epsilon(1e-14));
  CHECK(attention_weights(q, k, {.bias = f64({0, std::log(3.0)})}).to_vector()[1] ==
        doctest::Approx(0.75).epsilon(1e-14));
}

TEST_CASE("a bias is added after scaling and before masking") {
  const Tensor q = f64({{2}}), k = f64({{1}, {3}, {5}});
  const Values weights =
      attention_weights(q, k,
                        {.mask = Mask::hide(boolean({0, 0, 1})),
                         .bias = f64({0.5, 0, infinity}),  // hidden, so that it cannot matter
                         .scale = 0.25})
          .to_vector();
  const double a = std::exp(0.25 * 2 * 1 + 0.5), b = std::exp(0.25 * 2 * 3);
  CHECK(weights[0] == doctest::Approx(a / (a + b)).epsilon(1e-14));
  CHECK(weights[1] == doctest::Approx(b / (a + b)).epsilon(1e-14));
  CHECK(weights[2] == 0);
}

TEST_CASE("a bias has gradients of both orders, summed back to the shape it has") {
  const Mask mask = Mask::keep(boolean({{1, 1, 0}, {0, 0, 0}}));
  for (const Shape& shape : {Shape{2, 2, 2, 3}, Shape{2, 1, 3}, Shape{3}, Shape{}}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return attention(in[0], in[1], in[2], {.mask = mask, .bias = in[3]});
    };
    const std::vector<Tensor> inputs = {noise({2, 2, 2, 4}, 1), noise({2, 2, 3, 4}, 2),
                                        noise({2, 2, 3, 2}, 3), noise(shape, 4)};
    check_first_order(f, inputs);
    check_second_order(f, inputs, {.fast = true});
  }
}

TEST_CASE("a bias of -infinity hides, also a whole row, and gets no gradient there") {
  const Tensor q = noise({2, 3}, 1), k = noise({2, 3}, 2), v = noise({2, 2}, 3);
  const Tensor bias = parameter(f64({{-infinity, 0}, {-infinity, -infinity}}));
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    Tape tape;
    const Tensor y = attention(q, k, v, {.bias = bias, .path = path});
    CHECK(equal(select(y, 0, 0), select(v, 0, 1)));
    CHECK(select(y, 0, 1).to_vector() == Values{0, 0});
    CHECK(tape.gradient(y, {bias}, noise({2, 2}, 4))[bias].to_vector() == Values(4, 0.0));
  }
}

TEST_CASE("MASK-6 a finite minus infinity, added, lets the future in; -infinity does not") {
  const Tensor zero = zeros({2, 1}), v = tensor({{1}, {2}});
  const auto output = [&](const Tensor& bias) {
    return attention(zero, zero, v, {.bias = bias}).to_vector();
  };
  const auto causal = [](double low) { return tensor({{0, low}, {0, 0}}); };
  const auto padding = [](double low) { return tensor({{low, 0}}); };
  constexpr double lowest = std::numeric_limits<float>::lowest();
  CHECK(output(causal(-infinity) + padding(-infinity)) == Values{0, 2});
  CHECK(output(causal(lowest) + padding(lowest)) == Values{1.5, 2});
  const Tensor twice = padding(lowest) + padding(lowest);
  CHECK(output(causal(lowest) + twice) == Values{2, 2});
}

TEST_CASE("a bias that does not broadcast to the scores is an error in either path") {
  const Tensor q = noise({2, 3}, 1), k = noise({4, 3}, 2);
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    const auto with = [&](const Tensor& bias) {
      return [&, bias] { attention(q, k, k, {.bias = bias, .path = path}); };
    };
    check_throws(ErrorKind::shape, {"bias", "(3, 4)"}, with(zeros({3, 4}, DType::f64)));
    check_throws(ErrorKind::shape, {"bias", "(5, 2, 4)"}, with(zeros({5, 2, 4}, DType::f64)));
    check_throws(ErrorKind::dtype, {"f32"}, with(zeros({2, 4})));
  }
}

// ---- grouped heads -----------------------------------------------------------------------------

TEST_CASE("ATTN-6 each key head serves the query heads next to one another") {
  const Tensor q = zeros({4, 1, 1}, DType::f64), k = zeros({2, 1, 1}, DType::f64);
  const Tensor v = parameter(f64({{{10}}, {{20}}}));
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    Tape tape;
    const Tensor y = attention(q, k, v, {.path = path});
    CHECK(y.to_vector() == Values{10, 10, 20, 20});
    CHECK(tape.gradient(y, {v}, ones({4, 1, 1}, DType::f64))[v].to_vector() == Values{2, 2});
  }
}

TEST_CASE("grouped heads equal repeated ones, with masks and biases over the query heads") {
  for (const std::int64_t key_heads : {1, 2, 3, 6}) {
    const Tensor q = noise({2, 6, 4, 3}, 1);
    const Tensor k = noise({2, key_heads, 5, 3}, 2), v = noise({2, key_heads, 5, 2}, 3);
    const AttentionOptions options{
        .mask = Mask::causal(Align::bottom_right) & Mask::padding({3, 5}),
        .bias = noise({6, 4, 5}, 4)};
    const Tensor expected =
        attention(q, repeat_heads(k, 6 / key_heads), repeat_heads(v, 6 / key_heads), options);
    const Tensor y = attention(q, k, v, options);
    CHECK(y.shape() == Shape{2, 6, 4, 2});
    CHECK(allclose(y, expected, few_roundings, few_roundings));
  }
}

TEST_CASE("grouped heads have gradients of both orders, with the heads of k and v") {
  const auto f = [](const std::vector<Tensor>& in) {
    return attention(in[0], in[1], in[2], {.mask = Mask::causal()});
  };
  // k without a batch: its leading dims broadcast besides.
  const std::vector<Tensor> inputs = {noise({2, 4, 3, 2}, 1), noise({2, 3, 2}, 2),
                                      noise({2, 2, 3, 2}, 3)};
  check_first_order(f, inputs);
  check_second_order(f, inputs, {.fast = true});
}

TEST_CASE("grouped heads are views: neither keys nor queries are repeated or copied") {
  const Tensor x = parameter(noise({2, 4, 8}, 1));
  const Tensor k = parameter(noise({2, 2, 4, 2}, 2)), v = parameter(noise({2, 2, 4, 2}, 3));
  Tape tape;
  const Tensor q = split_heads(x, 4);
  const std::int64_t before = memory_stats().live;
  const Tensor y = attention(q, k, v);
  // What lives: the weights (2, 4, 4, 4) and the output (2, 4, 4, 2), in f64.
  CHECK(memory_stats().live - before == (2 * 4 * 4 * 4 + 2 * 4 * 4 * 2) * 8);
}

TEST_CASE("ATTN-9 query heads that are no multiple of the key heads are an error that names both") {
  const Tensor q = noise({3, 2, 4}, 1), k = noise({2, 5, 4}, 2);
  for (const AttentionPath path :
       {AttentionPath::composed, AttentionPath::fused, AttentionPath::automatic}) {
    check_throws(ErrorKind::shape, {"q f64 (3, 2, 4)", "k f64 (2, 5, 4)", "multiple"},
                 [&] { attention(q, k, k, {.path = path}); });
    check_throws(ErrorKind::shape, {"multiple"}, [&] {
      attention(k, noise({4, 5, 4}, 1), noise({4, 5, 4}, 2), {.path = path});
    });
  }
}

// ---- the path ----------------------------------------------------------------------------------

TEST_CASE("both paths give one result and one set of gradients, for every kind of mask") {
  const std::vector<Mask> masks = {
      Mask(),
      Mask::causal(Align::bottom_right),
      Mask::causal(Align::top_left),
      Mask::causal(1),
      Mask::padding({0, 5}),
      Mask::hide(boolean({{0, 1, 0, 1, 0}})),
      Mask::causal(1) & Mask::padding({2, 5}) & Mask::causal(Align::top_left),
      Mask::causal(1) | Mask::padding({2, 5}),
      (Mask::causal(1) & Mask::padding({2, 5})).prepared({2, 4, 3, 5})};
  const Tensor q = parameter(noise({2, 4, 3, 2}, 1)), k = parameter(noise({2, 2, 5, 2}, 2));
  const Tensor v = parameter(noise({2, 2, 5, 3}, 3)), bias = parameter(noise({4, 1, 5}, 4));
  const Tensor upstream = noise({2, 4, 3, 3}, 5);
  for (const Mask& mask : masks) {
    CAPTURE(mask.grid({2, 4, 3, 5}));
    std::vector<Tensor> y;
    std::vector<Gradients> g;
    for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
      Tape tape;
      manual_seed(3);
      y.push_back(attention(
          q, k, v, {.mask = mask, .bias = bias, .scale = 0.4, .dropout = 0.3, .path = path}));
      g.push_back(tape.gradient(y.back(), {q, k, v, bias}, upstream));
    }
    CHECK(allclose(y[1], y[0], few_roundings, few_roundings));
    for (const Tensor& leaf : {q, k, v, bias})
      CHECK(allclose(g[1][leaf], g[0][leaf], few_roundings, few_roundings));
  }
}

TEST_CASE("more queries than keys, aligned at the end: the first queries see nothing in any path") {
  const Tensor q = noise({3, 2}, 1), k = noise({2, 2}, 2);
  const Mask mask = Mask::causal(Align::bottom_right);
  CHECK(!mask.parts({3, 2}).causal_offset.has_value());
  const Tensor composed = attention(q, k, k, {.mask = mask});
  const Tensor fused = attention(q, k, k, {.mask = mask, .path = AttentionPath::fused});
  CHECK(allclose(fused, composed, few_roundings, few_roundings));
  CHECK(select(fused, 0, 0).to_vector() == Values{0, 0});
}

TEST_CASE("a triangle costs the fused path no tensor, alone or combined by &") {
  const Shape scores{2, 4, 3, 5};
  const Mask::Parts causal = Mask::causal(Align::bottom_right).parts(scores);
  CHECK(causal.causal_offset == 2);
  CHECK(!causal.hidden.defined());
  const Mask both = Mask::causal(4) & (Mask::padding({3, 5}) & Mask::causal(1));
  CHECK(both.parts(scores).causal_offset == 1);
  CHECK(both.parts(scores).hidden.shape() == Shape{2, 1, 1, 5});
  CHECK(both.prepared(scores).parts(scores).hidden.shape() == Shape{2, 1, 1, 5});
  CHECK(!Mask().parts(scores).causal_offset.has_value());
  CHECK(!Mask().parts(scores).hidden.defined());
  check_throws(ErrorKind::shape, {"3 queries", "5 keys"}, [&] { Mask::causal().parts(scores); });
}

TEST_CASE("the graph shows which path ran; automatic takes the fused one where it can") {
  const auto path_of = [](const Shape& q_shape, const Shape& k_shape, AttentionPath path) {
    const Tensor q = parameter(noise(q_shape, 1)), k = noise(k_shape, 2);
    Tape tape;
    const Tensor y = attention(q, k, k, {.path = path});
    return operations(tape.graph());
  };
  const Shape four{2, 4, 3, 2}, grouped{2, 2, 3, 2}, matrix{3, 2};
  CHECK(path_of(four, four, AttentionPath::fused) == Names{"fused_attention"});
  CHECK(path_of(four, grouped, AttentionPath::automatic) == Names{"fused_attention"});
  CHECK(has(path_of(matrix, matrix, AttentionPath::automatic), "fused_attention"));
  CHECK(has(path_of(four, four, AttentionPath::composed), "softmax"));
  // What broadcasts, or has more dims than four, is composed; forced, it is an error.
  for (const Shape& k_shape : {Shape{1, 4, 3, 2}, Shape{3, 2}, Shape{2, 2, 4, 3, 2}}) {
    CHECK(has(path_of(four, k_shape, AttentionPath::automatic), "softmax"));
    check_throws(ErrorKind::shape, {"fused_attention"},
                 [&] { path_of(four, k_shape, AttentionPath::fused); });
  }
}

TEST_CASE("a dry run of either path, with every option, saves what the real run saves") {
  const auto saved = [](AttentionPath path, bool dry) {
    std::optional<DryRun> scope;
    if (dry) scope.emplace();
    const Tensor q = parameter(zeros({2, 4, 5, 3})), k = parameter(zeros({2, 2, 5, 3}));
    const Tensor bias = parameter(zeros({4, 1, 5}));
    const Mask mask = (Mask::causal() | Mask::prefix(2)) & Mask::window(3) &
                      Mask::documents(zeros({2, 5}, DType::i64)) & Mask::padding({3, 5});
    Tape tape;
    const Tensor y = attention(q, k, k, {.mask = mask, .bias = bias, .dropout = 0.1, .path = path});
    const Graph graph = tape.graph();
    tape.gradient(y, {q, k, bias}, zeros(y.shape()));
    return graph;
  };
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    manual_seed(1);
    const Graph dry = saved(path, true);
    manual_seed(1);
    CHECK(dry == saved(path, false));
  }
}

// ---- through MultiHeadAttention ----------------------------------------------------------------

TEST_CASE("multi-head attention takes a bias over its heads, with right gradients") {
  Generator generator(11);
  const MultiHeadAttention attn({.embed_dim = 4, .num_heads = 2, .dtype = DType::f64}, generator);
  const Tensor x = noise({2, 3, 4}, 1), bias = noise({2, 3, 3}, 2);
  const auto f = [&](const std::vector<Tensor>& in) {
    return attn(in[0], in[0], in[0], Mask::causal(), in[1]);
  };
  check_first_order(f, {x, bias});
  const Tape::Pause pause;
  const auto both = attn.with_weights(x, x, x, Mask::causal(), HeadWeights::per_head, bias);
  CHECK(equal(both.output, attn(x, x, x, Mask::causal(), bias)));
  const auto without = attn.with_weights(x, x, x, Mask::causal(), HeadWeights::per_head);
  CHECK(!allclose(both.weights, without.weights, 1e-3, 0));
}

TEST_CASE("multi-head attention on the fused path equals the composed one, dropout included") {
  const auto output = [](AttentionPath path, Names& names) {
    Generator generator(11);
    const MultiHeadAttention attn(
        {.embed_dim = 6, .num_heads = 2, .dropout = 0.4, .path = path, .dtype = DType::f64},
        generator);
    manual_seed(5);
    Tape tape;
    const Tensor y = attn(noise({2, 5, 6}, 1), Mask::causal());
    names = operations(tape.graph());
    return y.detach();
  };
  Names composed_names, fused_names;
  const Tensor composed = output(AttentionPath::composed, composed_names);
  const Tensor fused = output(AttentionPath::fused, fused_names);
  CHECK(allclose(fused, composed, few_roundings, few_roundings));
  CHECK(has(fused_names, "fused_attention"));
  CHECK(!has(composed_names, "fused_attention"));
}

// ---- masks of other libraries ------------------------------------------------------------------

TEST_CASE("ATTN-1 PyTorch's multi-head masks: true is hidden, true is padding") {
  const Shape scores{1, 2, 2, 3};
  const MaskAndBias masks =
      from_torch_multihead_masks(boolean({{0, 0, 1}, {0, 0, 0}}), boolean({{1, 0, 0}}), 2);
  CHECK(!masks.bias.defined());
  CHECK(select(masks.mask.hidden(scores), 0, 0).to_vector<bool>() ==
        std::vector<bool>{1, 0, 1, 1, 0, 0});
  CHECK(from_torch_multihead_masks({}, {}, 2).mask.hides_nothing());
}

TEST_CASE("a mask for each sequence and head lists the heads of a sequence together") {
  // (N * heads, L, S) = (4, 1, 2): entry n * 2 + h.
  const Tensor mask = boolean({{{1, 0}}, {{0, 0}}, {{0, 1}}, {{0, 0}}});
  const Tensor hidden = from_torch_multihead_masks(mask, {}, 2).mask.hidden({2, 2, 1, 2});
  CHECK(equal(hidden, boolean({{{{1, 0}}, {{0, 0}}}, {{{0, 1}}, {{0, 0}}}})));
  const Tensor floats = noise({4, 1, 2}, 1);
  const Tensor bias = from_torch_multihead_masks(floats, {}, 2).bias;
  CHECK(equal(bias, reshape(floats, {2, 2, 1, 2})));
}

TEST_CASE("floating masks add up to one bias, which keeps the gradient of the first") {
  const Tensor mask = parameter(noise({2, 3}, 1)), padding = f64({{0, 0, -infinity}, {0, 0, 0}});
  Tape tape;
  const MaskAndBias masks = from_torch_multihead_masks(mask, padding, 2);
  CHECK(masks.mask.hides_nothing());
  CHECK(masks.bias.shape() == Shape{2, 1, 2, 3});
  const Tensor upstream = noise({2, 1, 2, 3}, 2);
  const Tensor first = select(upstream, 0, 0), second = select(upstream, 0, 1);
  const Tensor expected = reshape(first + second, {2, 3});
  CHECK(allclose(tape.gradient(masks.bias, {mask}, upstream)[mask], expected, few_roundings, 0));
  const MaskAndBias mixed = from_torch_multihead_masks(boolean({{0, 1, 0}}), padding, 2);
  CHECK(!mixed.mask.hides_nothing());
  CHECK(equal(mixed.bias, reshape(padding, {2, 1, 1, 3})));
}

TEST_CASE("PyTorch's masks without a batch fit input without a batch") {
  Generator generator(11);
  const MultiHeadAttention attn({.embed_dim = 4, .num_heads = 2, .dtype = DType::f64}, generator);
  const Tensor x = noise({3, 4}, 1), attn_mask = noise({2, 3, 3}, 2), padding = boolean({0, 0, 1});
  const Tape::Pause pause;
  const MaskAndBias alone = from_torch_multihead_masks(attn_mask, padding, 2);
  const MaskAndBias batch = from_torch_multihead_masks(attn_mask, unsqueeze(padding, 0), 2);
  const Tensor x_batch = unsqueeze(x, 0);
  CHECK(equal(attn(x, x, x, alone.mask, alone.bias),
              squeeze(attn(x_batch, x_batch, x_batch, batch.mask, batch.bias), 0)));
}

TEST_CASE("Hugging Face's attention_mask is 1 where a key is real, in any dtype") {
  const Tensor ones_and_zeros = from_vector<std::int64_t>({1, 1, 0, 1, 0, 0}, {2, 3});
  const Tensor hidden = boolean({{0, 0, 1}, {0, 1, 1}});
  const Shape scores{2, 4, 3, 3};
  const auto given = [&](const Tensor& mask) {
    return reshape(from_hugging_face_mask(mask).hidden(scores), {2, 3});
  };
  CHECK(equal(given(ones_and_zeros), hidden));
  CHECK(equal(given(f64({{1, 1, 0}, {1, 0, 0}})), hidden));
  CHECK(equal(given(boolean({{1, 1, 0}, {1, 0, 0}})), hidden));
  check_throws(ErrorKind::shape, {"(1, 1, 3)"}, [] {
    from_hugging_face_mask(zeros({1, 1, 3}, DType::i64));
  });
}

TEST_CASE("masks of PyTorch that cannot be are errors that say what they must be") {
  const Tensor flags = zeros({3, 2, 2}, DType::boolean);
  const auto error = [](ErrorKind kind, const char* text, const Tensor& mask, const Tensor& padding,
                        std::int64_t heads) {
    check_throws(kind, {text}, [&] { from_torch_multihead_masks(mask, padding, heads); });
  };
  error(ErrorKind::shape, "2 heads", flags, {}, 2);
  error(ErrorKind::shape, "attn_mask", zeros({2}, DType::boolean), {}, 2);
  error(ErrorKind::shape, "is_padding", {}, flags, 2);
  error(ErrorKind::shape, "key_padding_mask", {}, zeros({1, 2, 2}), 2);
  error(ErrorKind::dtype, "attn_mask", zeros({2, 2}, DType::i64), {}, 2);
  error(ErrorKind::dtype, "key_padding_mask", {}, zeros({2, 2}, DType::i64), 2);
  error(ErrorKind::value, "num_heads", flags, {}, 0);
}
