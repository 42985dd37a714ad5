#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/training_steps.h"
#include "support/values.h"

#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;
using graph::Finding;

namespace {

// The findings of one rule in the graph of what `step` does.
std::vector<Finding> findings(const Graph& graph, std::string_view rule) {
  std::vector<Finding> all = graph::lint(graph);
  std::erase_if(all, [&](const Finding& finding) { return finding.rule != rule; });
  return all;
}

// One finding of that rule: a slot of that name, freeing so many bytes.
void check_fires(const Graph& graph, std::string_view rule, const char* operation, const char* slot,
                 std::int64_t freed) {
  CAPTURE(rule);
  const std::vector<Finding> found = findings(graph, rule);
  REQUIRE(found.size() == 1);
  const Graph::SavedSlot& row = graph.saved[static_cast<std::size_t>(found[0].slot)];
  CHECK(graph.nodes[static_cast<std::size_t>(row.node)].operation == operation);
  CHECK(row.slot == slot);
  CHECK(found[0].freed == freed);
  CHECK_FALSE(found[0].mending.empty());
}

Graph recorded(const std::function<void(Tape&)>& step) {
  return watch([&] {
    Tape tape;
    step(tape);
  });
}

// y = operation(x) with one slot, and z = y * w, which keeps y: as a library writes it that saves
// the input of every operation.
Graph input_saver(const char* operation) {
  Graph graph;
  for (const std::int64_t bytes : {24, 24, 24, 24}) graph.storages.push_back({.bytes = bytes});
  graph.storages[2].category = Category::parameter;
  for (std::int64_t id = 0; id < 4; ++id)
    graph.values.push_back({.name = "",
                            .shape = {6},
                            .strides = {1},
                            .storage = id,
                            .producer = id == 1   ? 0
                                        : id == 3 ? 1
                                                  : -1,
                            .leaf = id == 0 || id == 2});
  graph.nodes = {
      {.operation = operation, .module = "", .attributes = {}, .inputs = {0}, .output = 1},
      {.operation = "mul", .module = "", .attributes = {}, .inputs = {1, 2}, .output = 3}};
  graph.saved = {{.node = 0, .slot = "x", .reason = "dx", .for_inputs = {0}, .value = 0},
                 {.node = 1, .slot = "a", .reason = "db", .for_inputs = {1}, .value = 1}};
  return graph;
}

// z = matmul(a, b) of a constant b: a is kept for db, by a library that does not ask.
Graph keeper_for_a_constant(bool b_is_leaf) {
  Graph graph = input_saver("copy");
  graph.saved.erase(graph.saved.begin());
  graph.nodes[1].operation = "matmul";
  graph.values[2].leaf = b_is_leaf;
  return graph;
}

// A step of SGD whose result is scaled by a leaf that is not stepped, or by that leaf as a
// constant.
Graph frozen_step(bool detached) {
  const DryRun dry_run;
  nn::Linear linear({.in_features = 5, .out_features = 3, .bias = false});
  Tensor scale = parameter(zeros({3}));
  scale.set_name("scale");
  nn::SGD optimizer(linear, {.lr = 0.1});
  return recorded([&](Tape& tape) {
    const Tensor y = mul(linear(randn({7, 5})), detached ? scale.detach() : scale);
    optimizer.step(tape.gradient(sum(y), linear.parameters()));
  });
}

}  // namespace

TEST_CASE("lint: a slot that no gradient call reads is unread, and one that is read is not") {
  const auto step = [](bool all) {
    return recorded([all](Tape& tape) {
      const Tensor w = parameter(randn({4})), v = parameter(randn({4}));
      const Tensor a = exp(w), b = exp(v);
      const Tensor y = sum(a + b);
      if (all) (void)tape.gradient(y, {w, v});
      else (void)tape.gradient(y, {w});
    });
  };
  check_fires(step(false), "unread", "exp", "y", 16);
  CHECK(findings(step(true), "unread").empty());
  Graph graph = input_saver("gelu");
  CHECK(findings(graph, "unread").empty());
  graph.saved[1].for_inputs.clear();
  check_fires(graph, "unread", "mul", "a", 24);
}

TEST_CASE("lint: an input is kept beside an output that would do, unless the rule needs it") {
  check_fires(input_saver("tanh"), "input_kept", "tanh", "x", 24);
  CHECK(findings(input_saver("gelu"), "input_kept").empty());
  Graph alone = input_saver("tanh");
  alone.saved.pop_back();
  CHECK(findings(alone, "input_kept").empty());
  CHECK(findings(gpt_step(), "input_kept").empty());
}

TEST_CASE("lint: what is kept for a frozen partner alone need not be") {
  check_fires(keeper_for_a_constant(false), "frozen_partner", "matmul", "a", 24);
  CHECK(findings(keeper_for_a_constant(true), "frozen_partner").empty());
  check_fires(frozen_step(false), "frozen_partner", "mul", "a", 7 * 3 * 4);
  CHECK(findings(frozen_step(true), "frozen_partner").empty());
}

TEST_CASE("lint: softmax makes the mask of masked_fill superfluous, other readers do not") {
  // The mask of both layers is one storage.
  const Graph gpt = gpt_step({.time = 7});
  check_fires(gpt, "masked_fill", "masked_fill", "mask", 7 * 7);
  CHECK(findings(gpt, "masked_fill")[0].others == 1);
  CHECK(findings(gpt_step({.path = nn::AttentionPath::fused}), "masked_fill").empty());
  const auto step = [](double fill, bool also_read) {
    return recorded([=](Tape&) {
      const Tensor x = parameter(randn({3, 3})), mask = eq(zeros({3, 3}), 0.0);
      const Tensor filled = masked_fill(x, mask, fill);
      const Tensor y = softmax(filled, -1);
      if (also_read) (void)(y + filled);
    });
  };
  check_fires(step(-infinity, false), "masked_fill", "masked_fill", "mask", 9);
  CHECK(findings(step(-infinity, true), "masked_fill").empty());
  CHECK(findings(step(-1, false), "masked_fill").empty());
}

TEST_CASE("lint: a copy of an expanded value is found, the expanded value itself is fine") {
  const auto step = [](Tensor (*shown)(const Tensor&)) {
    return recorded([=](Tape&) {
      const Tensor small = exp(parameter(randn({1, 5}))), w = parameter(randn({8, 5}));
      (void)mul(shown(expand(small, {8, 5})), w);
    });
  };
  // exp keeps the 20 bytes that were expanded.
  const auto check_copy = [&](Tensor (*copied)(const Tensor&)) {
    check_fires(step(copied), "expanded_copy", "mul", "a", 8 * 5 * 4);
  };
  check_copy([](const Tensor& x) { return contiguous(x); });
  check_copy([](const Tensor& x) { return clone(x); });
  check_copy([](const Tensor& x) { return reshape(flatten(x), {8, 5}); });
  CHECK(findings(step([](const Tensor& x) { return x; }), "expanded_copy").empty());
}

TEST_CASE("lint: a small view that pins a large base is found, a large view is fine") {
  const auto step = [](std::int64_t rows) {
    return recorded([=](Tape&) {
      const Tensor w = parameter(randn({3})), v = parameter(randn({rows, 3}));
      const Tensor base = matmul(randn({10, 3}), expand(w, {3, 3}));
      (void)mul(narrow(base, 0, 0, rows), v);
    });
  };
  check_fires(step(4), "small_view", "mul", "a", 6 * 3 * 4);
  CHECK(findings(step(6), "small_view").empty());
}

TEST_CASE("lint: mending frees what the finding says") {
  Graph graph = gpt_step();
  const std::int64_t before = graph.saved_activation_bytes();
  const Finding finding = findings(graph, "masked_fill")[0];
  std::erase_if(graph.saved, [](const Graph::SavedSlot& slot) { return slot.slot == "mask"; });
  CHECK(before - graph.saved_activation_bytes() == finding.freed);
}

TEST_CASE("lint: what is alike but for the numbers of its modules is told once, with the sum") {
  const auto finding = [](std::int64_t layers) {
    StepOptions options;
    options.layers = layers;
    Graph graph = gpt_step(options);
    // gelu's input for no wanted gradient, in each layer.
    for (Graph::SavedSlot& slot : graph.saved)
      if (graph.nodes[static_cast<std::size_t>(slot.node)].operation == "gelu")
        slot.for_inputs.clear();
    return graph;
  };
  const Graph graph = finding(3);
  const std::vector<Finding> found = graph::lint(graph);
  CHECK(std::ranges::count(found, "unread", &Finding::rule) == 3);
  const std::string text = graph::lint_text(graph, found);
  CHECK(contains(text, "unread x 3"));
  CHECK(contains(text, "layers.* gelu.x: f32 (2, 6, 48); 2,304 (2.25 KiB) each\n"));
  CHECK(text.find("Nothing reads it") == text.rfind("Nothing reads it"));
  CHECK(contains(text, "findings: " + std::to_string(found.size())));
  CHECK(contains(graph::lint_text(finding(1), graph::lint(finding(1))), "layers.0 gelu.x: "));
}

TEST_CASE(
    "tapehead graph lint lists what it finds, with exit code 1, and 0 when there is nothing") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  const Graph composed = gpt_step();
  graph::write_json(composed, folder.file("step.json"));
  CHECK(run_program("graph lint " + file + " > " + out) == 1);
  const std::string text = io::read_file("test", out);
  CHECK(text == graph::lint_text(composed, graph::lint(composed)));
  CHECK(text.find("layers.0.self_attn masked_fill.mask: bool (6, 6), kept by 1 more\n") !=
        std::string::npos);
  CHECK(run_program("graph lint --json " + file + " > " + out) == 1);
  const nlohmann::json report = nlohmann::json::parse(io::read_file("test", out));
  REQUIRE(report["findings"].size() == graph::lint(composed).size());
  CHECK(report["findings"][0]["module"] == "layers.0.self_attn");
  CHECK(report["findings"][0]["slot"] == "mask");
  graph::write_json(gpt_step({.path = nn::AttentionPath::fused}), folder.file("step.json"));
  CHECK(run_program("graph lint " + file + " > " + out) == 0);
}
