// TransformerEncoderLayer: both orders of norm, names, gradients, modes.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/names.h"
#include "support/tensors.h"

#include <tapehead/nn/encoder_layer.h>
#include <tapehead/nn/mask_conversions.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::names_of;
using tests::noise;

namespace {

using Names = std::vector<std::string>;

TransformerEncoderLayer make_layer(bool norm_first, double dropout = 0,
                                   AttentionPath path = AttentionPath::composed) {
  Generator generator(1);
  return TransformerEncoderLayer({.d_model = 4,
                                  .nhead = 2,
                                  .dim_feedforward = 6,
                                  .dropout = dropout,
                                  .norm_first = norm_first,
                                  .path = path,
                                  .dtype = DType::f64},
                                 generator);
}

}  // namespace

TEST_CASE("an encoder layer norms the sum after each branch, or with norm_first its input") {
  const Tensor src = noise({2, 3, 4}, 2), bias = noise({2, 3, 3}, 3);
  const Tape::Pause pause;
  const TransformerEncoderLayer post = make_layer(false), pre = make_layer(true);
  const Tensor attended = post.norm1(src + post.self_attn(src, src, src, Mask::causal(), bias));
  CHECK(equal(post(src, Mask::causal(), bias), post.norm2(attended + post.feed_forward(attended))));
  const Tensor normed = pre.norm1(src);
  const Tensor sum = src + pre.self_attn(normed, normed, normed, Mask::causal(), bias);
  CHECK(equal(pre(src, Mask::causal(), bias), sum + pre.feed_forward(pre.norm2(sum))));
  CHECK(to_string(pre).find("pre-norm") != std::string::npos);
  CHECK(to_string(post).find("post-norm") != std::string::npos);
}

TEST_CASE("an encoder layer's parameters have PyTorch's names, shapes and first values") {
  const TransformerEncoderLayer layer = make_layer(false);
  CHECK(names_of(layer.state_dict()) ==
        Names{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
              "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
              "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"});
  CHECK(layer.feed_forward.linear1.weight.shape() == Shape{6, 4});
  CHECK(equal(layer.self_attn.in_proj_bias, zeros({12}, DType::f64)));
  CHECK(equal(layer.self_attn.out_proj.bias, zeros({4}, DType::f64)));
  const TransformerEncoderLayer defaults({.d_model = 4, .nhead = 2});
  CHECK(defaults.feed_forward.options().hidden == 2048);
  CHECK(defaults.feed_forward.options().activation == Activation::relu);
  CHECK(defaults.dropout1.probability() == 0.1);
  CHECK(defaults.norm1.options().eps == 1e-5);
  CHECK(!defaults.options().norm_first);
}

TEST_CASE("an encoder layer's gradients are right in both orders, those of its parameters too") {
  for (const bool norm_first : {false, true}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      TransformerEncoderLayer layer = make_layer(norm_first);
      layer.norm1.weight = in[1];
      layer.self_attn.in_proj_bias = in[2];
      layer.feed_forward.linear2.weight = in[3];
      return layer(in[0], Mask::causal(), in[4]);
    };
    const std::vector<Tensor> inputs = {noise({2, 3, 4}, 1), noise({4}, 2), noise({12}, 3),
                                        noise({4, 6}, 4), noise({3, 3}, 5)};
    check_first_order(f, inputs);
    check_second_order(f, inputs, {.fast = true});
  }
}

TEST_CASE("every parameter of an encoder layer is reached and listed") {
  const TransformerEncoderLayer layer = make_layer(false);
  Tape tape;
  const Tensor y = layer(noise({2, 3, 4}, 1));
  const Gradients g = tape.gradient(y, layer.parameters(), noise({2, 3, 4}, 2));
  for (const Tensor& parameter : layer.parameters()) CHECK(g.reached(parameter));
  CHECK(layer.unlisted_leaves(tape).empty());
}

TEST_CASE("dropout acts in an encoder layer's training mode and leaves evaluation alone") {
  TransformerEncoderLayer layer = make_layer(true, 0.5);
  const Tensor src = noise({2, 3, 4}, 1);
  const Tape::Pause pause;
  CHECK(!equal(layer(src), layer(src)));
  layer.eval();
  CHECK(equal(layer(src), make_layer(true)(src)));
}

TEST_CASE("an encoder layer on the fused path equals the composed one, dropout included") {
  const Tensor src = noise({2, 5, 4}, 1);
  const Tape::Pause pause;
  const auto output = [&](AttentionPath path) {
    manual_seed(7);
    return make_layer(false, 0.3, path)(src, Mask::causal());
  };
  // Two orders of summing a few products of f64.
  CHECK(allclose(output(AttentionPath::fused), output(AttentionPath::composed), 1e-12, 1e-12));
}

TEST_CASE("a source without a batch, and PyTorch's masks for it") {
  const TransformerEncoderLayer layer = make_layer(false);
  const Tensor src = noise({3, 4}, 1);
  const Tape::Pause pause;
  const Tensor causal = tensor({{0, 1, 1}, {0, 0, 1}, {0, 0, 0}}, DType::boolean);
  const auto [mask, bias] = from_torch_multihead_masks(causal, {}, 2);
  CHECK(equal(layer(src, mask, bias), layer(src, Mask::causal())));
  CHECK(!equal(layer(src, mask, bias), layer(src)));
}

TEST_CASE("a clone of an encoder layer computes the same with parameters of its own") {
  const TransformerEncoderLayer layer = make_layer(true);
  const TransformerEncoderLayer copy = clone(layer);
  const Tensor src = noise({2, 3, 4}, 1);
  const Tape::Pause pause;
  CHECK(equal(copy(src), layer(src)));
  CHECK(!copy.norm1.weight.is_same(layer.norm1.weight));
}

TEST_CASE("options of an encoder layer that do not fit are value errors") {
  const auto error = [](const char* text, const TransformerLayerOptions& options) {
    check_throws(ErrorKind::value, {text}, [&] { TransformerEncoderLayer layer(options); });
  };
  error("num_heads 3", {.d_model = 4, .nhead = 3});
  error("out_features 0", {.d_model = 4, .nhead = 2, .dim_feedforward = 0});
  error("dropout", {.d_model = 4, .nhead = 2, .dropout = 1.5});
  error("eps", {.d_model = 4, .nhead = 2, .layer_norm_eps = -1});
}
