// What-if predictions against runs with the change made. What is said with them is in
// graph_whatif_answers_test.cpp.
#include "support/checks.h"
#include "support/predictions.h"
#include "support/training_steps.h"

#include <tapehead/graph/json.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

using Step = std::function<Graph(const StepOptions&)>;

// Small and large in each of the sizes, so that the peak falls into different steps.
std::vector<StepOptions> sizes() {
  return {{},
          {.batch = 8, .time = 24},
          {.batch = 1, .time = 96},
          {.batch = 32, .time = 8},
          {.batch = 8, .time = 24, .dim = 48, .heads = 4},
          {.norm_first = true, .batch = 16, .time = 16},
          {.dropout = 0.25, .batch = 4, .time = 32},
          {.dropout = 0.25, .norm_first = true, .batch = 1, .time = 64},
          {.batch = 2, .time = 48, .biased = true},
          {.norm_first = true, .batch = 16, .time = 16, .biased = true}};
}

struct Subject {
  const char* name;
  Step step;
  const char* module;     // that the step checkpoints
  const char* attention;  // with a composed attention
};
const std::vector<Subject> subjects = {
    {"MultiHeadAttention", attention_step, "attn", "attn"},
    {"encoder layer", encoder_step, "layer", "layer.self_attn"},
    {"Gpt", gpt_step, "layers.*", "layers.*.self_attn"},
};

// Calls f(subject, options) for all of them.
template <class F>
void for_each(F&& f) {
  for (const Subject& subject : subjects)
    for (const StepOptions& options : sizes()) {
      CAPTURE(subject.name);
      CAPTURE(options.batch);
      CAPTURE(options.time);
      CAPTURE(options.dim);
      CAPTURE(options.norm_first);
      CAPTURE(options.dropout);
      CAPTURE(options.biased);
      f(subject, options);
    }
}

// Two attentions under one mask, which is made for both or anew for each, and then more memory for
// a moment of the forward pass than any other step needs.
Graph shared_mask_step(nn::AttentionPath of_a, nn::AttentionPath of_b, bool is_made_once) {
  const nn::MultiHeadAttention a({.embed_dim = 12, .num_heads = 3, .path = of_a}),
      b({.embed_dim = 12, .num_heads = 3, .path = of_b});
  const auto run = [](const char* name, const nn::MultiHeadAttention& attention, const Tensor& x,
                      const nn::Mask& mask) {
    const ModuleScope scope(name);
    return attention(x, mask);
  };
  return watch([&] {
    const Tensor x = zeros({2, 64, 12});
    nn::Mask mask = nn::Mask::causal();
    if (is_made_once) mask = mask.prepared({2, 3, 64, 64});
    Tape tape;
    const Tensor y = run("b", b, run("a", a, x, mask), mask);
    (void)zeros({1000, 1000});
    std::vector<Tensor> leaves = a.parameters();
    for (const Tensor& leaf : b.parameters()) leaves.push_back(leaf);
    (void)tape.gradient(sum(y * y), leaves);
  });
}

}  // namespace

TEST_CASE("a checkpoint does what was predicted: bytes saved, the peak, operations") {
  for_each([](const Subject& subject, StepOptions options) {
    const Graph plain = subject.step(options);
    options.checkpointed = true;
    check_equal_figures(graph::checkpointed(plain, subject.module), subject.step(options));
  });
}

TEST_CASE("so does a checkpoint of a part that stands beside a residual") {
  for (StepOptions options : sizes()) {
    CAPTURE(options.batch);
    CAPTURE(options.dropout);
    const Graph plain = residual_step(options);
    options.checkpointed = true;
    check_equal_figures(graph::checkpointed(plain, "part.*"), residual_step(options));
  }
}

TEST_CASE("so does a checkpoint of what worked in place of the value that enters") {
  const std::vector<std::pair<const char*, Activation>> activations = {
      {"tanh", [](Tensor x) { return tanh(std::move(x)); }},
      {"add", [](Tensor x) { return std::move(x) + 1.0; }},
      {"relu of add", [](Tensor x) { return relu(std::move(x) + 1.0); }},
      {"softmax", [](Tensor x) { return softmax(std::move(x), -1); }},
      {"dropout", [](Tensor x) { return nn::Dropout(0.5)(tanh(std::move(x))); }}};
  for (const auto& [name, f] : activations)
    for (const std::int64_t depth : {1, 2, 3}) {
      const std::string activation = name;  // a structured binding is not for CAPTURE, in clang 14
      CAPTURE(activation);
      CAPTURE(depth);
      check_equal_figures(graph::checkpointed(activation_step(f, depth, false), "act.*"),
                          activation_step(f, depth, true));
    }
}

TEST_CASE("so does a checkpoint of a value that is overwritten behind it") {
  for (const Overwritten what : {Overwritten::operand, Overwritten::view, Overwritten::unreached}) {
    CAPTURE(static_cast<int>(what));
    check_equal_figures(graph::checkpointed(overwritten_step(what, false), "act"),
                        overwritten_step(what, true));
  }
}

TEST_CASE("the fused path does what was predicted: bytes saved, the peak, operations") {
  for_each([](const Subject& subject, StepOptions options) {
    const Graph composed = subject.step(options);
    options.path = nn::AttentionPath::fused;
    check_equal_figures(graph::fused(composed, subject.attention), subject.step(options));
  });
}

TEST_CASE("the fused path is predicted with any mask, and with a bias that wants a gradient") {
  const nn::Mask padding = nn::Mask::hide(zeros({32, 1, 1, 8}, DType::boolean));
  const std::vector<nn::Mask> masks = {nn::Mask(),
                                       nn::Mask::causal(),
                                       nn::Mask::window(2),
                                       padding,
                                       nn::Mask::hide(gt(randn({8, 8}), 0.0)),
                                       nn::Mask::hide(nn::Mask::causal().hidden({32, 4, 8, 8}))};
  for (const nn::Mask& mask : masks)
    for (const bool with_bias : {false, true}) {
      CAPTURE(with_bias);
      const auto run = [&](nn::AttentionPath path) { return biased_step(mask, with_bias, path); };
      check_equal_figures(graph::fused(run(nn::AttentionPath::composed), "attn"),
                          run(nn::AttentionPath::fused));
    }
  // The kernel keeps the padding alone, and makes the triangle itself.
  const nn::Mask both = nn::Mask::causal() & padding;
  const Graph predicted =
      graph::fused(biased_step(both, false, nn::AttentionPath::composed), "attn");
  const Graph real = biased_step(both, false, nn::AttentionPath::fused);
  const std::int64_t too_much = predicted.saved_activation_bytes() - real.saved_activation_bytes();
  CHECK(too_much == 32 * 8 * 8 - 32 * 8);
}

TEST_CASE("the fused path is predicted where its peak falls into the forward pass under a mask") {
  using enum nn::AttentionPath;
  for (const bool held : {false, true}) {
    CAPTURE(held);
    const Graph plain = shared_mask_step(composed, composed, held);
    const auto peak_step = static_cast<std::size_t>(graph::timeline(plain).peak_step);
    REQUIRE(plain.steps[peak_step].phase == Graph::Phase::forward);
    check_equal_figures(graph::fused(plain, "a"), shared_mask_step(fused, composed, held));
    check_equal_figures(graph::fused(plain, "b"), shared_mask_step(composed, fused, held));
    check_equal_figures(graph::fused(plain, "*"), shared_mask_step(fused, fused, held));
  }
}

TEST_CASE("predicted graphs can be read by every other report, and predicted from again") {
  const Graph gpt = gpt_step();
  const Graph one = graph::checkpointed(gpt, "layers.1");
  CHECK(graph::from_json(graph::to_json(one)) == one);
  const Graph both = graph::checkpointed(one, "layers.0");
  CHECK(both.saved_bytes() == gpt_step({.checkpointed = true}).saved_bytes());
  const Graph fused = graph::fused(graph::fused(gpt, "layers.0"), "layers.1.self_attn");
  const Graph real = gpt_step({.path = nn::AttentionPath::fused});
  check_equal_figures(fused, real);
  CHECK(fused.nodes.size() == real.nodes.size());
}

TEST_CASE(
    "a predicted checkpoint stands in the graph as a real one, and is none to be made again") {
  const auto operations = [](const Graph& graph, bool recomputed) {
    std::multiset<std::string> all;
    for (const Graph::Node& node : graph.nodes)
      if (node.recomputed == recomputed) all.insert(node.module + " " + node.operation);
    return all;
  };
  const auto already = [](const std::string& path) {
    return graph::WhatIfMatch{.name = path, .note = "is a checkpoint already"};
  };
  const auto step = [](nn::Checkpointed checkpoint) {
    const nn::Gpt gpt({.vocab_size = 11,
                       .context = 6,
                       .layers = 2,
                       .heads = 3,
                       .dim = 12,
                       .checkpoint = checkpoint});
    const Tensor tokens = zeros({2, 6}, DType::i64);
    return watch([&] {
      Tape tape;
      const Tensor y = gpt(tokens);
      (void)tape.gradient(sum(y * y), gpt.parameters());
    });
  };
  const Graph real = step(nn::Checkpointed::block), plain = step(nn::Checkpointed::none),
              predicted = graph::checkpointed(plain, "layers.*");
  CHECK(predicted.saved_bytes() == real.saved_bytes());
  for (const bool recomputed : {false, true})
    CHECK(operations(predicted, recomputed) == operations(real, recomputed));
  for (const Graph& graph : {real, predicted}) {
    check_throws(ErrorKind::value, {"layers.0 is a checkpoint already"},
                 [&] { (void)graph::checkpointed(graph, "layers.*"); });
    check_throws(ErrorKind::value, {"layers.0 is a checkpoint already"},
                 [&] { (void)graph::checkpoint_matches(graph, "layers.*"); });
    check_throws(ErrorKind::value, {"layers has the checkpoint layers.0 in it"},
                 [&] { (void)graph::checkpointed(graph, "layers"); });
    check_throws(ErrorKind::value, {"no composed attention"},
                 [&] { (void)graph::fused(graph, "layers.*"); });
  }
  // The other layer can be one, too.
  const Graph one = graph::checkpointed(plain, "layers.1");
  CHECK(graph::checkpoint_matches(one, "layers.*") ==
        std::vector<graph::WhatIfMatch>{{.name = "layers.0"}, already("layers.1")});
  check_equal_figures(graph::checkpointed(one, "layers.*"), predicted);
}

TEST_CASE("a mask that a checkpoint may read again is held when the others are fused") {
  const Graph gpt = gpt_step({.batch = 8, .time = 24});
  const auto peak = [](const Graph& graph) { return graph::timeline(graph).peak; };
  CHECK(peak(graph::fused(graph::checkpointed(gpt, "layers.1"), "layers.0")) ==
        peak(graph::checkpointed(graph::fused(gpt, "layers.0"), "layers.1")));
}

TEST_CASE("without events a prediction has the bytes saved and no peak") {
  Graph gpt = gpt_step();
  const Graph watched = graph::checkpointed(gpt, "layers.*");
  gpt.events.clear();
  gpt.steps.clear();
  const Graph predicted = graph::checkpointed(gpt, "layers.*");
  CHECK(predicted.saved_bytes() == watched.saved_bytes());
  CHECK(flops(predicted) == flops(watched));
  CHECK(flops(predicted) > flops(gpt));
  CHECK(predicted.events.empty());
  CHECK(graph::fused(gpt, "*").saved_bytes() ==
        gpt_step({.path = nn::AttentionPath::fused}).saved_bytes());
}

TEST_CASE("a slot that is made again keeps nothing, and costs what makes it") {
  const StepOptions options{.batch = 8, .time = 24};
  const Graph plain = gpt_step(options);
  const Graph predicted = graph::recomputed(plain, {"layers.0 gelu.x"});
  const std::int64_t hidden = 8 * 24 * 4 * 12, product = 2 * 8 * 24 * 12 * 4 * 12;
  CHECK(plain.saved_activation_bytes() - predicted.saved_activation_bytes() == hidden * 4);
  CHECK(flops(predicted) - flops(plain) == product);
  CHECK(graph::timeline(predicted).peak ==
        graph::timeline(plain).peak - hidden * 4);  // it falls into the last layer's backward pass

  // The input of the norm in the second layer is the first layer's result, so the chain back ends
  // at what that layer keeps.
  const Graph norms = graph::recomputed(plain, {"layers.1.norm1 layer_norm.x"});
  CHECK(norms.saved_activation_bytes() < plain.saved_activation_bytes());
  const Graph all = graph::recomputed(plain, {"layers.* gelu.x"});
  CHECK(plain.saved_activation_bytes() - all.saved_activation_bytes() == 2 * hidden * 4);
}

TEST_CASE("what is live at the peak of checkpointed layers is of the categories that really are") {
  const auto at_peak = [](const Graph& graph) {
    return nlohmann::json::parse(graph::peak_json(graph))["category_bytes"];
  };
  for (const auto& [sequences, time] : {std::pair{2, 7}, std::pair{8, 24}, std::pair{4, 32}}) {
    const std::int64_t batch = sequences;
    CAPTURE(batch);
    const Graph plain = gpt_step({.batch = batch, .time = time});
    const Graph real = gpt_step({.checkpointed = true, .batch = batch, .time = time});
    CHECK(at_peak(graph::checkpointed(plain, "layers.*")) == at_peak(real));
  }
}

TEST_CASE("a checkpoint books no gradient but those that were asked for, really and as predicted") {
  const auto gradients = [](const Graph& graph) {
    std::int64_t bytes = 0;
    for (const Graph::Event& event : graph.events) {
      const Graph::Storage& storage = graph.storages[static_cast<std::size_t>(event.storage)];
      if (event.birth && storage.category == Category::gradient) bytes += storage.bytes;
    }
    return bytes;
  };
  for_each([&](const Subject& subject, StepOptions options) {
    const Graph plain = subject.step(options);
    options.checkpointed = true;
    CHECK(gradients(subject.step(options)) == gradients(plain));
    CHECK(gradients(graph::checkpointed(plain, subject.module)) == gradients(plain));
  });
}
