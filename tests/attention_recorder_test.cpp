// AttentionRecorder: what it holds, and that it changes no result.
#include <tapehead/nn/attention_recorder.h>
#include <tapehead/nn/checkpoint.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/transformer.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/reduce.h>

#include <doctest/doctest.h>

#include <memory>
#include <thread>

using namespace tapehead;
using namespace tapehead::nn;

namespace {

using Names = std::vector<std::string>;

Gpt small_gpt(AttentionPath path = AttentionPath::composed, double dropout = 0) {
  Generator generator(5);
  return Gpt({.vocab_size = 7,
              .context = 6,
              .layers = 2,
              .heads = 2,
              .dim = 8,
              .dropout = dropout,
              .kv_heads = 1,
              .path = path,
              .dtype = DType::f64},
             generator);
}

Tensor some_tokens() { return from_vector<std::int64_t>({1, 2, 3, 4, 1, 2, 6, 4}, {2, 4}); }

Names modules(const AttentionRecorder& recorder) {
  Names names;
  for (const AttentionMap& map : recorder.maps()) names.push_back(map.module);
  return names;
}

}  // namespace

TEST_CASE("a recorder holds each layer's weights, under its path, as with_weights gives them") {
  const Gpt model = small_gpt();
  const Tape::Pause pause;
  const AttentionRecorder recorder;
  model(some_tokens());
  REQUIRE(modules(recorder) == Names{"layers.0.self_attn", "layers.1.self_attn"});
  for (const AttentionMap& map : recorder.maps()) {
    CHECK(map.weights.shape() == Shape{2, 2, 4, 4});
    CHECK(allclose(sum(map.weights, {-1}), ones({2, 2, 4}, DType::f64), 1e-14, 0));
  }
  const Tensor x =
      model.layers[0].norm1(model.token_embedding(some_tokens()) + (*model.position_embedding)(4));
  const Tensor expected =
      model.layers[0]
          .self_attn.with_weights(x, x, x, Mask::causal(), HeadWeights::per_head)
          .weights;
  CHECK(equal(recorder.maps()[0].weights, expected));
}

TEST_CASE("a recorder holds what each mask hides from its queries, and nothing where none hides") {
  Generator generator(1);
  const MultiHeadAttention attention({.embed_dim = 4, .num_heads = 2}, generator);
  const Tensor x = ones({2, 3, 4});
  const Tape::Pause pause;
  const AttentionRecorder recorder;
  attention(x, Mask::causal());
  attention(x, Mask::padding(std::vector<std::int64_t>{3, 1}));
  attention(x, Mask());
  const auto expected = [&](const Mask& mask) { return mask.hidden({2, 2, 3, 3}); };
  REQUIRE(recorder.maps().size() == 3);
  CHECK(equal(recorder.maps()[0].hidden, expected(Mask::causal())));
  CHECK(equal(recorder.maps()[1].hidden, expected(Mask::padding(std::vector<std::int64_t>{3, 1}))));
  CHECK(!recorder.maps()[2].hidden.defined());
}

TEST_CASE("recording changes no result, records before dropout, and holds no gradient") {
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    const Gpt model = small_gpt(path, 0.3);
    const auto logits = [&] {
      manual_seed(3);
      return model(some_tokens());
    };
    Tape tape;
    const Tensor without = logits();
    const AttentionRecorder recorder;
    CHECK(equal(logits(), without));
    const Tensor weights = recorder.maps()[0].weights;
    CHECK(allclose(sum(weights, {-1}), ones({2, 2, 4}, DType::f64), 1e-14, 0));
    CHECK(!weights.requires_grad());
  }
}

TEST_CASE("a recorder records decoding and cross-attention, while it lives, the innermost one") {
  Generator generator(1);
  const TransformerDecoderLayer layer({.d_model = 4, .nhead = 2, .dim_feedforward = 6}, generator);
  const Tape::Pause pause;
  KeyValueCache cache;
  AttentionRecorder outer;
  {
    const AttentionRecorder inner;
    layer.decode(ones({1, 3, 4}), ones({1, 5, 4}), cache);
    layer.decode(ones({1, 1, 4}), ones({1, 5, 4}), cache);
    CHECK(modules(inner) == Names{"self_attn", "multihead_attn", "self_attn", "multihead_attn"});
    CHECK(inner.maps()[2].weights.shape() == Shape{1, 2, 1, 4});
    CHECK(inner.maps()[3].weights.shape() == Shape{1, 2, 1, 5});
  }
  CHECK(outer.maps().empty());
  std::thread([&] { layer(ones({1, 3, 4}), ones({1, 5, 4})); }).join();
  CHECK(outer.maps().empty());  // another thread's
  layer(ones({1, 3, 4}), ones({1, 5, 4}));
  CHECK(outer.maps().size() == 2);
}

TEST_CASE(
    "a recorder changes nothing of what is saved, also around checkpoints, whenever it lives") {
  for (const auto path : {AttentionPath::composed, AttentionPath::fused}) {
    Gpt model = small_gpt(path);
    model.train();
    std::vector<Graph> graphs;
    for (const bool forward : {false, true})
      for (const bool backward : {false, true}) {
        Tape tape;
        Tensor y;
        auto recorder = std::make_unique<AttentionRecorder>();
        if (!forward) recorder.reset();
        y = checkpoint([&](const std::vector<Tensor>& in) { return sum(model(in[0])); },
                       {some_tokens()});
        CHECK((!forward || recorder->maps().size() == 2));
        if (!backward) recorder.reset();
        if (backward && !recorder) recorder = std::make_unique<AttentionRecorder>();
        tape.gradient(y, model.parameters());
        CHECK((!backward || recorder->maps().size() == (forward ? 2u : 0u)));
        graphs.push_back(tape.graph());
      }
    for (const Graph& graph : graphs) CHECK(graph == graphs.front());
  }
}
