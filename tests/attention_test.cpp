// Masks, attention on heads, MultiHeadAttention. Biases, grouped heads and the choice of path are
// in attention_options_test.cpp.
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/gradcheck.h>
#include <tapehead/core/memory.h>
#include <tapehead/nn/multi_head_attention.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <limits>
#include <set>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::check_throws;
using tests::f64;
using tests::noise;

namespace {

using Values = std::vector<double>;
using Names = std::vector<std::string>;

MultiHeadAttention make_attention(MultiHeadAttentionOptions options) {
  Generator generator(11);
  options.dtype = DType::f64;
  return MultiHeadAttention(options, generator);
}

Names operations(const Graph& graph) {
  Names names;
  for (const Graph::Node& node : graph.nodes) names.push_back(node.operation);
  return names;
}

}  // namespace

// ---- masks -------------------------------------------------------------------------------------

TEST_CASE("a mask prints as a grid and lists the queries that see nothing") {
  CHECK(Mask::causal().grid({3, 3}) ==
        ". x x\n"
        ". . x\n"
        ". . .\n");
  const Mask left_padded = Mask::causal() & Mask::padding(boolean({1, 1, 0, 0, 0}));
  CHECK(left_padded.grid({5, 5}) ==
        "x x x x x\n"
        "x x x x x\n"
        "x x . x x\n"
        "x x . . x\n"
        "x x . . .\n"
        "queries that see nothing: 0, 1\n");
  CHECK(Mask::padding({2, 1}).grid({2, 1, 1, 2}) == "matrix 0:\n. .\nmatrix 1:\n. x\n");
  CHECK(Mask().grid({1, 2}) == ". .\n");
}

TEST_CASE("ATTN-3 a causal mask over different numbers of queries and keys must be aligned") {
  check_throws(ErrorKind::shape, {"1 queries", "3 keys", "bottom_right"}, [] {
    Mask::causal().hidden({1, 3});
  });
  CHECK(Mask::causal(Align::bottom_right).grid({2, 3}) == ". . x\n. . .\n");
  CHECK(Mask::causal(Align::top_left).grid({2, 3}) == ". x x\n. . x\n");
  CHECK(Mask::causal(1).grid({2, 3}) == ". . x\n. . .\n");
  CHECK(Mask::causal(Align::bottom_right).grid({3, 2}) ==
        "x x\n. x\n. .\nqueries that see nothing: 0\n");

  const Tensor v = f64({{1}, {2}, {6}}), k = zeros({3, 1}, DType::f64);
  const auto attend = [&](std::int64_t queries, Align align) {
    return attention(zeros({queries, 1}, DType::f64), k, v, {.mask = Mask::causal(align)})
        .to_vector();
  };
  CHECK(attend(1, Align::bottom_right) == Values{3});
  CHECK(attend(2, Align::bottom_right) == Values{1.5, 3});
  CHECK(attend(1, Align::top_left) == Values{1});
  CHECK(attend(2, Align::top_left) == Values{1, 1.5});
}

TEST_CASE("ATTN-1 keep and hide say what true means") {
  const Tensor zero = zeros({1, 1}, DType::f64), keys = zeros({2, 1}, DType::f64);
  const Tensor v = f64({{10}, {20}}), mask = boolean({1, 0});
  CHECK(attention(zero, keys, v, {.mask = Mask::keep(mask)}).item() == 10);
  CHECK(attention(zero, keys, v, {.mask = Mask::hide(mask)}).item() == 20);
  CHECK(attention(zero, keys, v, {.mask = Mask::padding(mask)}).item() == 20);
}

TEST_CASE("masks combine: & needs both to let a key be seen, | needs one") {
  const Mask left = Mask::keep(boolean({{1, 0}, {1, 1}})), right = Mask::keep(boolean({1, 0}));
  CHECK((left & right).grid({2, 2}) == ". x\n. x\n");
  CHECK((left | right).grid({2, 2}) == ". x\n. .\n");
  CHECK((Mask() & left).grid({2, 2}) == left.grid({2, 2}));
  CHECK((left | Mask()).hides_nothing());
  CHECK((Mask() & Mask()).hides_nothing());
}

TEST_CASE("masks stay as small as broadcasting allows") {
  const Shape scores{4, 8, 6, 6};
  CHECK(Mask::causal().hidden(scores).shape() == Shape{6, 6});
  CHECK(Mask::padding({1, 2, 3, 6}).hidden(scores).shape() == Shape{4, 1, 1, 6});
  CHECK((Mask::causal() & Mask::padding({1, 2, 3, 6})).hidden(scores).shape() == Shape{4, 1, 6, 6});
  CHECK(!Mask().hidden(scores).defined());
}

TEST_CASE("a prepared mask is made once for its shape, and anew for others") {
  const Mask mask = Mask::causal().prepared({2, 2, 3, 3});
  CHECK(mask.hidden({2, 2, 3, 3}).storage() == mask.hidden({2, 2, 3, 3}).storage());
  CHECK(mask.hidden({4, 4}).shape() == Shape{4, 4});
  CHECK(Mask().prepared({2, 2}).hides_nothing());
  const auto storage_of = [](const Mask& m) { return m.parts({2, 2, 3, 3}).hidden.storage(); };
  const Mask first_planned = Mask::window(2).prepared({2, 2, 3, 3});
  {
    const DryRun dry;
    CHECK(first_planned.hidden({2, 2, 3, 3}).storage()->is_dry());
  }
  CHECK(first_planned.hidden({2, 2, 3, 3}).to_vector<bool>().size() == 9);
  const Mask window = Mask::window(2).prepared({2, 2, 3, 3});
  CHECK(storage_of(window) == window.hidden({2, 2, 3, 3}).storage());
  const Mask both = (Mask::causal() & Mask::padding({1, 3})).prepared({2, 2, 3, 3});
  CHECK(storage_of(both) == storage_of(both));
  CHECK(both.parts({2, 2, 3, 3}).hidden.shape() == Shape{2, 1, 1, 3});
}

TEST_CASE("masks that do not fit are errors that say why") {
  const Tensor floats = zeros({2, 2});
  check_throws(ErrorKind::dtype, {"may_attend"}, [&] { Mask::keep(floats); });
  check_throws(ErrorKind::dtype, {"is_hidden"}, [&] { Mask::hide(floats); });
  check_throws(ErrorKind::dtype, {"is_padding"}, [&] { Mask::padding(floats); });
  check_throws(ErrorKind::shape, {"(2, 3)", "(4, 4)"}, [] {
    Mask::hide(zeros({2, 3}, DType::boolean)).hidden({4, 4});
  });
  // A batch of masks is not taken for heads.
  check_throws(ErrorKind::shape, {"(2, 3, 3)", "rank"}, [] {
    Mask::hide(zeros({2, 3, 3}, DType::boolean)).hidden({2, 2, 3, 3});
  });
  check_throws(ErrorKind::shape, {"length 4"}, [] { Mask::padding({4}).hidden({1, 3, 3}); });
  check_throws(ErrorKind::value, {"length -1"}, [] { Mask::padding({-1}); });
  check_throws(ErrorKind::shape, {"batch"}, [] { Mask::padding({1}).hidden({3, 3}); });
  check_throws(ErrorKind::shape, {"(2, 1, 1, 3)", "(5, 2, 3, 3)"}, [] {
    Mask::padding({1, 2}).hidden({5, 2, 3, 3});
  });
  check_throws(ErrorKind::value, {"offset -1"}, [] { Mask::causal(-1); });
  check_throws(ErrorKind::shape, {"(3)"}, [] { Mask::causal().hidden({3}); });
}

// ---- attention on heads ------------------------------------------------------------------------

TEST_CASE("MASK-1 a query that sees nothing gives 0 and disturbs no gradient") {
  const Tensor q = parameter(f64({{1}, {1}})), k = parameter(f64({{0}, {std::log(3.0)}}));
  const Tensor v = parameter(f64({{1}, {2}}));
  const AttentionOptions options{.mask = Mask::keep(boolean({{1, 1}, {0, 0}})), .scale = 1};
  CHECK(attention_weights(q, k, options).to_vector() == Values{0.25, 0.75, 0, 0});
  Tape tape;
  const Tensor y = attention(q, k, v, options);
  CHECK(y.to_vector() == Values{1.75, 0});
  const Gradients g = tape.gradient(select(select(y, 0, 0), 0, 0), {q, k, v});
  const auto is = [&](const Tensor& gradient, const NestedList& expected) {
    return allclose(gradient, f64(expected), 1e-14, 0);
  };
  CHECK(is(g[q], {{0.1875 * std::log(3.0)}, {0}}));
  CHECK(is(g[k], {{-0.1875}, {0.1875}}));
  CHECK(is(g[v], {{0.25}, {0.75}}));
}

TEST_CASE(
    "MASK-2 left padding under a causal mask: real positions are as if unpadded, twice over") {
  const Mask mask = Mask::causal() & Mask::padding(boolean({1, 0, 0}));
  const auto layer = [](const Tensor& x, const Mask& m) {
    return attention(x, x, x, {.mask = m, .scale = 1});
  };
  const Tensor padded = layer(f64({{9}, {1}, {2}}), mask);
  const Tensor plain = layer(f64({{1}, {2}}), Mask::causal());
  CHECK(padded.to_vector()[0] == 0);
  CHECK(equal(narrow(padded, 0, 1, 2), plain));
  CHECK(padded.to_vector()[2] == doctest::Approx(1.880797).epsilon(1e-6));
  const Values twice = layer(padded, mask).to_vector();
  CHECK(twice[0] == 0);
  CHECK(twice[1] == 1);
  CHECK(twice[2] == doctest::Approx(1.739677).epsilon(1e-6));
}

TEST_CASE("ATTN-8 one key: the output is its value, and q and k have gradients of exactly 0") {
  const Tensor q = parameter(noise({1, 2}, 1)), k = parameter(noise({1, 2}, 2));
  const Tensor v = parameter(f64({{4, 5}})), upstream = f64({{0.3, -7}});
  Tape tape;
  const Tensor y = attention(q, k, v);
  CHECK(y.to_vector() == Values{4, 5});
  const Gradients g = tape.gradient(y, {q, k, v}, upstream);
  CHECK(g[q].to_vector() == Values{0, 0});
  CHECK(g[k].to_vector() == Values{0, 0});
  CHECK(equal(g[v], upstream));
}

TEST_CASE("ATTN-5 heads are split from the features and merged back, tokens unmixed") {
  const Tensor heads = f64({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});  // (heads, time, features)
  const Tensor merged = merge_heads(heads);
  CHECK(equal(merged, f64({{1, 2, 5, 6}, {3, 4, 7, 8}})));
  CHECK(equal(split_heads(merged, 2), heads));
  const Tensor batch = noise({3, 5, 8}, 4);
  CHECK(split_heads(batch, 4).shape() == Shape{3, 4, 5, 2});
  CHECK(equal(merge_heads(split_heads(batch, 4)), batch));
  check_throws(ErrorKind::shape, {"3 heads"}, [&] { split_heads(batch, 3); });
  check_throws(ErrorKind::shape, {"heads"}, [&] { merge_heads(noise({2, 2}, 1)); });
}

TEST_CASE("the lecture's five lines of backward, in plain loops, are the tape's gradients") {
  constexpr std::int64_t T = 5, E = 3, V = 4;
  const Tensor q = parameter(noise({T, E}, 1)), k = parameter(noise({T, E}, 2));
  const Tensor v = parameter(noise({T, V}, 3)), upstream = noise({T, V}, 4);
  Tape tape;
  const Tensor y = attention(q, k, v, {.mask = Mask::causal()});
  const Gradients g = tape.gradient(y, {q, k, v}, upstream);
  const Tape::Pause pause;
  const Values A = attention_weights(q, k, {.mask = Mask::causal()}).to_vector();
  const Values Q = q.to_vector(), K = k.to_vector(), Vs = v.to_vector();
  const Values Y = y.to_vector(), dY = upstream.to_vector();
  const double s = 1 / std::sqrt(3.0);
  const auto at = [](std::int64_t i, std::int64_t j, std::int64_t columns) {
    return static_cast<std::size_t>(i * columns + j);
  };
  Values dQ(T * E), dK(T * E), dV(T * V), dS(T * T);
  for (std::int64_t i = 0; i < T; ++i) {
    double D = 0;
    for (std::int64_t c = 0; c < V; ++c) D += dY[at(i, c, V)] * Y[at(i, c, V)];
    for (std::int64_t j = 0; j < T; ++j) {
      double dA = 0;
      for (std::int64_t c = 0; c < V; ++c) {
        dA += dY[at(i, c, V)] * Vs[at(j, c, V)];
        dV[at(j, c, V)] += A[at(i, j, T)] * dY[at(i, c, V)];
      }
      dS[at(i, j, T)] = A[at(i, j, T)] * (dA - D);
      for (std::int64_t c = 0; c < E; ++c) {
        dQ[at(i, c, E)] += s * dS[at(i, j, T)] * K[at(j, c, E)];
        dK[at(j, c, E)] += s * dS[at(i, j, T)] * Q[at(i, c, E)];
      }
    }
  }
  CHECK(allclose(g[q], from_vector(dQ, {T, E}), 0, 1e-12));
  CHECK(allclose(g[k], from_vector(dK, {T, E}), 0, 1e-12));
  CHECK(allclose(g[v], from_vector(dV, {T, V}), 0, 1e-12));
}

TEST_CASE("attention has right gradients of both orders, also with broadcast batches and no keys") {
  const Mask mask = Mask::keep(boolean({{1, 1, 0}, {0, 0, 0}}));
  const auto f = [&](const std::vector<Tensor>& in) {
    return attention(in[0], in[1], in[2], {.mask = mask, .scale = 0.7});
  };
  const std::vector<Tensor> inputs = {noise({2, 2, 4}, 1), noise({1, 3, 4}, 2),
                                      noise({2, 3, 2}, 3)};
  const GradcheckReport first = gradcheck(f, inputs);
  CHECK_MESSAGE(first.ok, to_string(first));
  const GradcheckReport second = gradgradcheck(f, inputs);
  CHECK_MESSAGE(second.ok, to_string(second));

  const Tensor nothing = attention(noise({2, 4}, 1), noise({0, 4}, 2), noise({0, 3}, 3));
  CHECK(nothing.to_vector() == Values(6, 0.0));
}

TEST_CASE(
    "attention's dropout replays one mask for any rerun, and leaves the weights' rows alone") {
  const Tensor q = noise({4, 8, 3}, 1), v = noise({4, 8, 3}, 2);
  manual_seed(9);
  const Tensor first = attention(q, q, v, {.dropout = 0.5});
  const Tensor second = attention(q, q, v, {.dropout = 0.5});
  manual_seed(9);
  CHECK(equal(attention(q, q, v, {.dropout = 0.5}), first));
  CHECK(!equal(first, second));
  const Tensor rows = sum(attention_weights(q, q, {.dropout = 0.5}), {-1});
  CHECK(allclose(rows, ones({4, 8}, DType::f64), 1e-14, 0));
  check_throws(ErrorKind::value, {"dropout"}, [&] { attention(q, q, v, {.dropout = 1.5}); });
}

TEST_CASE("operands of attention that do not fit are shape errors that name them") {
  const Tensor q = noise({2, 3}, 1), k = noise({4, 3}, 2), v = noise({5, 3}, 3);
  check_throws(ErrorKind::shape, {"q f64 (2, 3)", "k f64 (4, 2)"}, [&] {
    attention(q, noise({4, 2}, 1), k);
  });
  check_throws(ErrorKind::shape, {"k f64 (4, 3)", "v f64 (5, 3)"}, [&] { attention(q, k, v); });
  check_throws(ErrorKind::shape, {"(3)"}, [&] { attention(noise({3}, 1), k, k); });
  check_throws(ErrorKind::shape, {"(5, 5)"}, [&] {
    attention(q, k, k, {.mask = Mask::hide(zeros({5, 5}, DType::boolean))});
  });
}

// ---- MultiHeadAttention ------------------------------------------------------------------------

TEST_CASE("h = 1 equals the single-head formula element by element") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 1});
  const Tensor x = noise({2, 4, 6}, 1);
  const Tape::Pause pause;
  const auto part = [&](std::int64_t i) {
    return linear(x, narrow(attn.in_proj_weight, 0, 6 * i, 6),
                  narrow(attn.in_proj_bias, 0, 6 * i, 6));
  };
  const Tensor q = part(0), k = part(1), v = part(2);
  const Tensor hidden = triu(ones({4, 4}, DType::f64), 1);
  Tensor scores = matmul(q, transpose(k, 1, 2)) * (1 / std::sqrt(6.0));
  scores = masked_fill(scores, gt(hidden, 0), -std::numeric_limits<double>::infinity());
  const Tensor expected =
      linear(matmul(softmax(scores, -1), v), attn.out_proj.weight, attn.out_proj.bias);
  CHECK(allclose(attn(x, Mask::causal()), expected, 1e-14, 1e-15));
}

TEST_CASE("heads attend apart: each equals attention on its own slice of the projections") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 6, .num_heads = 3, .bias = false});
  const Tensor x = noise({4, 6}, 1);
  const Tape::Pause pause;
  const auto part = [&](std::int64_t i, std::int64_t head) {
    return linear(x, narrow(attn.in_proj_weight, 0, 6 * i + 2 * head, 2));
  };
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < 3; ++h)
    heads.push_back(attention(part(0, h), part(1, h), part(2, h)));
  CHECK(allclose(attn(x), linear(cat(heads, 1), attn.out_proj.weight), 1e-13, 1e-14));
}

TEST_CASE(
    "the tape of self-attention lists its steps, and saves one T x T activation and the mask") {
  constexpr std::int64_t B = 2, T = 7, d = 6, h = 3;
  Generator generator(1);
  MultiHeadAttention attn({.embed_dim = d, .num_heads = h}, generator);
  const Tensor x = parameter(randn({B, T, d}));
  Tape tape;
  const Tensor y = attn(x, Mask::causal());
  const Graph graph = tape.graph();
  const Names projection = {"narrow", "narrow", "linear", "reshape", "transpose"};
  Names expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), projection.begin(), projection.end());
  for (const char* step : {"transpose", "matmul", "masked_fill", "softmax", "matmul", "transpose",
                           "reshape", "linear"})
    expected.push_back(step);
  CHECK(operations(graph) == expected);

  std::set<std::int64_t> squares;
  Names slots;
  for (const Graph::SavedSlot& slot : graph.saved) {
    const Graph::Value& value = graph.values[static_cast<std::size_t>(slot.value)];
    if (value.shape != Shape{B, h, T, T}) continue;
    squares.insert(value.storage);
    slots.push_back(graph.nodes[static_cast<std::size_t>(slot.node)].operation + "." + slot.slot);
  }
  CHECK(squares.size() == 1);
  CHECK(slots == Names{"softmax.y", "matmul.a"});
  // q, k, v and the merged heads; x is a leaf here. The mask is one byte an element.
  CHECK(graph.saved_activation_bytes() == 4 * B * h * T * T + 16 * B * T * d + T * T);
}

TEST_CASE("the scores are masked and normalised in place: one T x T buffer in the forward pass") {
  constexpr std::int64_t T = 256, square = 4 * T * T;
  MultiHeadAttention attn({.embed_dim = 8, .num_heads = 1});
  const Tensor x = randn({1, T, 8});
  Tape tape;
  const std::int64_t before = memory_stats().live;
  reset_peak();
  const Tensor y = attn(x, Mask::causal());
  // Beside it only the mask (a quarter) and the (T, 8) tensors, a dozen at most.
  CHECK(memory_stats().peak - before < square + square / 4 + square / 2);
}

TEST_CASE("a dry run saves what the real run saves, and allocates nothing") {
  Generator generator(1);
  const auto saved = [&](bool dry) {
    std::optional<DryRun> scope;
    if (dry) scope.emplace();
    MultiHeadAttention attn({.embed_dim = 6, .num_heads = 2}, generator);
    const Tensor x = randn({2, 5, 6});
    Tape tape;
    const Tensor y = attn(x, Mask::causal() & Mask::padding({3, 5}));
    const Graph graph = tape.graph();
    tape.gradient(sum(y), attn.parameters());
    return graph;
  };
  CHECK(saved(true) == saved(false));
}

TEST_CASE("cross-attention with its own key and value features, and its gradients") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .kdim = 3, .vdim = 5});
  CHECK(!attn.in_proj_weight.defined());
  CHECK(attn.k_proj_weight.shape() == Shape{4, 3});
  CHECK(attn.v_proj_weight.shape() == Shape{4, 5});
  const std::vector<Tensor> parameters = attn.parameters();
  const auto f = [&](const std::vector<Tensor>& in) {
    MultiHeadAttention copy =
        make_attention({.embed_dim = 4, .num_heads = 2, .kdim = 3, .vdim = 5});
    copy.k_proj_weight = in[3];
    copy.in_proj_bias = in[4];
    return copy(in[0], in[1], in[2], Mask::padding({3, 2}));
  };
  const std::vector<Tensor> inputs = {noise({2, 2, 4}, 1), noise({2, 3, 3}, 2), noise({2, 3, 5}, 3),
                                      noise({4, 3}, 4), noise({12}, 5)};
  const GradcheckReport report = gradcheck(f, inputs);
  CHECK_MESSAGE(report.ok, to_string(report));
}

TEST_CASE("self-attention's packed projections have right gradients of both orders") {
  const auto f = [](const std::vector<Tensor>& in) {
    MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
    attn.in_proj_weight = in[1];
    attn.in_proj_bias = in[2];
    attn.out_proj.weight = in[3];
    return attn(in[0], Mask::causal());
  };
  const std::vector<Tensor> inputs = {noise({2, 3, 4}, 1), noise({12, 4}, 2), noise({12}, 3),
                                      noise({4, 4}, 4)};
  const GradcheckReport first = gradcheck(f, inputs, {.fast = true});
  CHECK_MESSAGE(first.ok, to_string(first));
  const GradcheckReport second = gradgradcheck(f, inputs, {.fast = true});
  CHECK_MESSAGE(second.ok, to_string(second));
}

TEST_CASE("input without a batch gives the batch's result without a batch") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({5, 4}, 1);
  const Mask mask = Mask::causal() & Mask::padding(boolean({1, 0, 0, 0, 0}));
  const Tape::Pause pause;
  const Tensor batched = attn(unsqueeze(x, 0), mask);
  CHECK(equal(attn(x, mask), squeeze(batched, 0)));
  const auto result = attn.with_weights(x, x, x, mask, HeadWeights::per_head);
  CHECK(result.weights.shape() == Shape{2, 5, 5});
  CHECK(attn.with_weights(x, x, x).weights.shape() == Shape{5, 5});
}

TEST_CASE("ATTN-7 weights on request: averaged or per head, before dropout, the result unchanged") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
  const Tensor x = noise({3, 5, 4}, 1);
  const Mask mask = Mask::causal();
  const Tape::Pause pause;
  manual_seed(2);
  const Tensor plain = attn(x, mask);
  manual_seed(2);
  const auto per_head = attn.with_weights(x, x, x, mask, HeadWeights::per_head);
  const auto averaged = attn.with_weights(x, x, x, mask);
  CHECK(equal(per_head.output, plain));
  CHECK(per_head.weights.shape() == Shape{3, 2, 5, 5});
  CHECK(allclose(sum(per_head.weights, {-1}), ones({3, 2, 5}, DType::f64), 1e-14, 0));
  CHECK(allclose(averaged.weights, mean(per_head.weights, {1}), 1e-14, 0));
  const Tensor hidden = Mask::causal().hidden({5, 5});
  CHECK(sum(masked_fill(averaged.weights, logical_not(hidden), 0)).item() == 0);
}

TEST_CASE("the returned weights can be differentiated") {
  const auto f = [](const std::vector<Tensor>& in) {
    const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
    auto result = attn.with_weights(in[0], in[0], in[0], Mask::causal());
    return std::vector<Tensor>{result.output, result.weights};
  };
  const GradcheckReport report = gradcheck(f, {noise({2, 3, 4}, 1)});
  CHECK_MESSAGE(report.ok, to_string(report));
}

TEST_CASE("ATTN-4 dropout acts in training mode only: evaluation draws nothing") {
  MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2, .dropout = 0.5});
  MultiHeadAttention without = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({3, 5, 4}, 1);
  const Tape::Pause pause;
  CHECK(!equal(attn(x), without(x)));
  attn.eval();
  const RandomState before = default_generator().state();
  const Tensor first = attn(x);
  CHECK(equal(first, attn(x)));
  CHECK(equal(first, without(x)));
  CHECK(default_generator().state() == before);
}

TEST_CASE("ATTN-9 options that do not fit are value errors") {
  check_throws(ErrorKind::value, {"embed_dim 10", "num_heads 4"},
               [] { MultiHeadAttention({.embed_dim = 10, .num_heads = 4}); });
  check_throws(ErrorKind::value, {"num_heads 0"},
               [] { MultiHeadAttention({.embed_dim = 10, .num_heads = 0}); });
  check_throws(ErrorKind::value, {"kdim -1"},
               [] { MultiHeadAttention({.embed_dim = 2, .num_heads = 1, .kdim = -1}); });
  check_throws(ErrorKind::value, {"dropout"},
               [] { MultiHeadAttention({.embed_dim = 2, .num_heads = 1, .dropout = 2}); });
}

TEST_CASE("inputs that do not fit are shape errors that name all three") {
  const MultiHeadAttention attn = make_attention({.embed_dim = 4, .num_heads = 2});
  const Tensor x = noise({2, 3, 4}, 1);
  const auto rejects = [&](const Tensor& q, const Tensor& k, const Tensor& v, const char* rule) {
    check_throws(ErrorKind::shape, {"query", "key", "value", rule}, [&] { attn(q, k, v); });
  };
  rejects(noise({4}, 1), x, x, "(time, features)");
  rejects(x, noise({3, 4}, 1), x, "(time, features)");
  rejects(noise({2, 3, 5}, 1), x, x, "features");
  rejects(x, x, noise({2, 4, 4}, 1), "equal time");
  rejects(x, noise({1, 3, 4}, 1), noise({1, 3, 4}, 1), "batch");
}

TEST_CASE("projections start uniform as Linear's, or as PyTorch's attention on request") {
  Generator generator(1);
  const MultiHeadAttention plain({.embed_dim = 64, .num_heads = 4, .dtype = DType::f64}, generator);
  const MultiHeadAttention xavier({.embed_dim = 64,
                                   .num_heads = 4,
                                   .init = ProjectionInit::xavier_uniform,
                                   .dtype = DType::f64},
                                  generator);
  const auto largest = [](const Tensor& x) { return amax(maximum(x, 0 - x)).item(); };
  const Tape::Pause pause;
  // 12288 draws: the largest is within 0.5 % of the bound but for a chance of e^-60.
  CHECK(largest(plain.in_proj_weight) == doctest::Approx(1 / 8.0).epsilon(0.005));
  CHECK(largest(xavier.in_proj_weight) == doctest::Approx(std::sqrt(6 / 256.0)).epsilon(0.005));
  CHECK(largest(plain.in_proj_weight) <= 1 / 8.0);
  CHECK(largest(xavier.in_proj_bias) == 0);
  CHECK(largest(xavier.out_proj.bias) == 0);
  CHECK(largest(plain.in_proj_bias) > 0);
}
