// TransformerDecoderLayer and the stacks: both orders of norm, names, gradients, decoding.
#include "support/checks.h"
#include "support/gradients.h"
#include "support/names.h"
#include "support/tensors.h"

#include <tapehead/nn/transformer.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/windows.h>

#include <set>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_first_order;
using tests::check_second_order;
using tests::check_throws;
using tests::names_of;
using tests::noise;

namespace {

using Names = std::vector<std::string>;

TransformerLayerOptions layer_options(bool norm_first) {
  return {.d_model = 4,
          .nhead = 2,
          .dim_feedforward = 6,
          .dropout = 0,
          .activation = norm_first ? Activation::gelu : Activation::relu,
          .norm_first = norm_first,
          .dtype = DType::f64};
}

TransformerDecoderLayer make_layer(bool norm_first) {
  Generator generator(1);
  return TransformerDecoderLayer(layer_options(norm_first), generator);
}

}  // namespace

// ---- TransformerDecoderLayer -------------------------------------------------------------------

TEST_CASE("a decoder layer attends to itself, then to the memory, in both orders of norm") {
  const Tensor tgt = noise({2, 3, 4}, 1), memory = noise({2, 5, 4}, 2);
  const Mask padding = Mask::padding({5, 3});
  const Tape::Pause pause;
  const TransformerDecoderLayer post = make_layer(false), pre = make_layer(true);
  Tensor x = post.norm1(tgt + post.self_attn(tgt, Mask::causal()));
  x = post.norm2(x + post.multihead_attn(x, memory, memory, padding));
  CHECK(equal(post(tgt, memory, Mask::causal(), padding), post.norm3(x + post.feed_forward(x))));
  x = tgt + pre.self_attn(pre.norm1(tgt), Mask::causal());
  x = x + pre.multihead_attn(pre.norm2(x), memory, memory, padding);
  CHECK(equal(pre(tgt, memory, Mask::causal(), padding), x + pre.feed_forward(pre.norm3(x))));
  CHECK(pre.summary() == "TransformerDecoderLayer (pre-norm)");
}

TEST_CASE("a decoder layer's parameters have PyTorch's names and shapes") {
  const TransformerDecoderLayer layer = make_layer(false);
  CHECK(names_of(layer.state_dict()) ==
        Names{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
              "self_attn.out_proj.bias", "multihead_attn.in_proj_weight",
              "multihead_attn.in_proj_bias", "multihead_attn.out_proj.weight",
              "multihead_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
              "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
              "norm3.weight", "norm3.bias"});
  CHECK(layer.feed_forward.linear1.weight.shape() == Shape{6, 4});
}

TEST_CASE(
    "without biases no part of a layer has one, and the rest of the options reach all parts") {
  TransformerLayerOptions options = layer_options(true);
  options.bias = false;
  options.layer_norm_eps = 0.5;
  options.num_kv_heads = 1;
  options.rotary.emplace();
  options.path = AttentionPath::fused;
  const TransformerEncoderLayer encoder(options);
  const TransformerDecoderLayer decoder(options);
  CHECK(names_of(encoder.state_dict()) == Names{"self_attn.in_proj_weight",
                                                "self_attn.out_proj.weight", "linear1.weight",
                                                "linear2.weight", "norm1.weight", "norm2.weight"});
  CHECK(names_of(decoder.state_dict()).size() == 9);
  for (const LayerNorm* norm :
       {&encoder.norm1, &encoder.norm2, &decoder.norm1, &decoder.norm2, &decoder.norm3})
    CHECK(norm->options().eps == 0.5);
  for (const MultiHeadAttention* attention :
       {&encoder.self_attn, &decoder.self_attn, &decoder.multihead_attn}) {
    CHECK(attention->options().num_kv_heads == 1);
    CHECK(attention->options().path == AttentionPath::fused);
    CHECK(attention->options().rotary.has_value() == (attention != &decoder.multihead_attn));
  }
}

TEST_CASE("a decoder layer is causal unless told otherwise, and sees all of the memory") {
  const TransformerDecoderLayer layer = make_layer(true);
  const Tensor tgt = parameter(noise({2, 3, 4}, 1)), memory = parameter(noise({2, 5, 4}, 2));
  for (const bool causal : {true, false}) {
    Tape tape;
    const Tensor y = causal ? layer(tgt, memory) : layer(tgt, memory, Mask());
    const Tensor first = select(y, 1, 0);
    const Gradients g = tape.gradient(first, {tgt, memory}, noise({2, 4}, 3));
    const Tensor later = narrow(g[tgt], 1, 1, 2);
    CHECK(equal(later, zeros_like(later)) == causal);
    CHECK(amin(abs(g[memory])).item() > 0);
  }
}

TEST_CASE("a decoder layer's gradients are right in both orders, those of its parameters too") {
  for (const bool norm_first : {false, true}) {
    const auto f = [&](const std::vector<Tensor>& in) {
      TransformerDecoderLayer layer = make_layer(norm_first);
      layer.multihead_attn.in_proj_bias = in[2];
      layer.norm2.weight = in[3];
      layer.norm3.bias = in[4];
      return layer(in[0], in[1]);
    };
    const std::vector<Tensor> inputs = {noise({2, 3, 4}, 1), noise({2, 2, 4}, 2), noise({12}, 3),
                                        noise({4}, 4), noise({4}, 5)};
    check_first_order(f, inputs);
    check_second_order(f, inputs, {.fast = true});
  }
}

TEST_CASE("a decoder layer decodes token by token as in one pass") {
  const Tensor tgt = noise({2, 4, 4}, 1), memory = noise({2, 5, 4}, 2);
  const Tape::Pause pause;
  for (const bool norm_first : {false, true}) {
    TransformerLayerOptions options = layer_options(norm_first);
    options.rotary.emplace();
    options.num_kv_heads = 1;
    Generator generator(1);
    const TransformerDecoderLayer layer(options, generator);
    const Tensor whole = layer(tgt, memory, Mask::causal(), Mask::padding({5, 3}));
    KeyValueCache cache;
    for (std::int64_t t = 0; t < 4; ++t) {
      const Tensor y = layer.decode(narrow(tgt, 1, t, 1), memory, cache, {}, Mask::padding({5, 3}));
      // 1e-12 is what is asked of a cache.
      CHECK(allclose(y, narrow(whole, 1, t, 1), 0, 1e-12));
    }
  }
}

TEST_CASE("a decoder layer's dropout acts in training mode only, and a clone is its equal") {
  TransformerLayerOptions options = layer_options(true);
  options.dropout = 0.5;
  Generator generator(1);
  TransformerDecoderLayer layer(options, generator);
  const Tensor tgt = noise({2, 3, 4}, 1), memory = noise({2, 5, 4}, 2);
  const Tape::Pause pause;
  CHECK(!equal(layer(tgt, memory), layer(tgt, memory)));
  layer.eval();
  CHECK(equal(layer(tgt, memory), make_layer(true)(tgt, memory)));
  CHECK(equal(clone(layer)(tgt, memory), layer(tgt, memory)));
}

// ---- stacks ------------------------------------------------------------------------------------

TEST_CASE(
    "stacks run their layers in order, each from first values of its own, and then the norm") {
  const Tensor src = noise({2, 3, 4}, 1), memory = noise({2, 5, 4}, 2), bias = noise({2, 3, 3}, 3);
  const Tape::Pause pause;
  for (const bool final_norm : {false, true}) {
    const TransformerStackOptions options{
        .layer = layer_options(true), .num_layers = 3, .final_norm = final_norm};
    Generator generator(1);
    TransformerEncoder encoder(options, generator);
    TransformerDecoder decoder(options, generator);
    CHECK(!equal(encoder.layers[0].feed_forward.linear1.weight,
                 encoder.layers[1].feed_forward.linear1.weight));
    CHECK(encoder.norm.has_value() == final_norm);
    if (final_norm) {
      encoder.norm->weight = parameter(noise({4}, 4));
      decoder.norm->weight = parameter(noise({4}, 5));
    }
    Tensor x = src;
    for (const auto& layer : encoder.layers) x = layer(x, Mask::causal(), bias);
    CHECK(equal(encoder(src, Mask::causal(), bias), final_norm ? (*encoder.norm)(x) : x));
    x = src;
    const Mask padding = Mask::padding({5, 3});
    for (const auto& layer : decoder.layers) x = layer(x, memory, Mask::causal(), padding);
    CHECK(
        equal(decoder(src, memory, Mask::causal(), padding), final_norm ? (*decoder.norm)(x) : x));
    CHECK(names_of(encoder.state_dict()).size() == 3 * 12 + (final_norm ? 2 : 0));
    CHECK(names_of(decoder.state_dict()).size() == 3 * 18 + (final_norm ? 2 : 0));
    CHECK(names_of(encoder.state_dict())[12] == "layers.1.self_attn.in_proj_weight");
  }
}

TEST_CASE("the layers of a stack share one mask of each kind") {
  Generator generator(1);
  const TransformerDecoder decoder({.layer = layer_options(true), .num_layers = 3}, generator);
  const Tensor tgt = noise({2, 3, 4}, 1), memory = noise({2, 5, 4}, 2);
  Tape tape;
  const Tensor y = decoder(tgt, memory, Mask::causal(), Mask::padding({5, 3}));
  const Graph graph = tape.graph();
  std::set<std::int64_t> masks;
  int uses = 0;
  for (const Graph::SavedSlot& slot : graph.saved) {
    if (slot.slot != "mask") continue;
    masks.insert(graph.values[static_cast<std::size_t>(slot.value)].storage);
    ++uses;
  }
  CHECK(uses == 6);
  CHECK(masks.size() == 2);
}

TEST_CASE("every parameter of a stack is reached and listed, also without a batch") {
  Generator generator(1);
  const TransformerStackOptions options{
      .layer = layer_options(false), .num_layers = 2, .final_norm = true};
  const TransformerEncoder encoder(options, generator);
  const TransformerDecoder decoder(options, generator);
  std::vector<Tensor> parameters = encoder.parameters();
  for (const Tensor& parameter : decoder.parameters()) parameters.push_back(parameter);
  Tape tape;
  const Tensor y = decoder(noise({3, 4}, 1), encoder(noise({5, 4}, 2)));
  const Gradients g = tape.gradient(y, parameters, noise({3, 4}, 3));
  for (const Tensor& parameter : parameters) CHECK(g.reached(parameter));
  check_throws(ErrorKind::shape, {"(4)"}, [&] { encoder(noise({4}, 1)); });
  check_throws(ErrorKind::value, {"num_layers 0"},
               [] { TransformerEncoder nothing({.layer = layer_options(true)}); });
}
