// What a what-if question finds in a graph, refuses and tells. The predictions are in
// graph_whatif_test.cpp.
#include "support/checks.h"
#include "support/predictions.h"
#include "support/training_steps.h"

#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/mask.h>
#include <tapehead/ops/create.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

using Paths = std::vector<std::string>;
using Matches = std::vector<graph::WhatIfMatch>;

}  // namespace

TEST_CASE("a checkpoint stays when a module inside it is to be one, too") {
  const Graph gpt = gpt_step();
  const Graph outer = graph::checkpointed(gpt, "layers.0");
  for (const Paths& paths :
       {Paths{"layers.0", "layers.0.self_attn"}, Paths{"layers.0.self_attn", "layers.0"}})
    CHECK(graph::checkpointed(gpt, paths) == outer);
  const graph::WhatIfMatch inner{.name = "layers.0.self_attn",
                                 .note = "is already inside the checkpoint layers.0"};
  const auto matches =
      graph::checkpoint_matches(gpt, Paths{"layers.0", "layers.0.self_attn", "layers.0"});
  REQUIRE(matches.size() == 2);
  CHECK(matches[0].name == "layers.0");
  CHECK(matches[1] == inner);
  const Graph both = graph::checkpointed(gpt, Paths{"layers.1", "layers.0"});
  check_equal_figures(both, graph::checkpointed(gpt, "layers.*"));
  check_throws(ErrorKind::value, {"no module matches \"nothing\""}, [&] {
    (void)graph::checkpointed(gpt, Paths{"layers.0", "nothing"});
  });
}

TEST_CASE("a what-if question that the graph cannot answer is refused") {
  const Graph gpt = gpt_step();
  check_throws(ErrorKind::value,
               {"whatif", "no module matches \"layer.0\"; the nearest names are layers.0, "},
               [&] { (void)graph::checkpointed(gpt, "layer.0"); });
  check_throws(ErrorKind::value, {"no module matches"},
               [&] { (void)graph::fused(gpt, "layers.1?"); });
  check_throws(ErrorKind::value, {"no composed attention in \"norm\""},
               [&] { (void)graph::fused(gpt, "norm"); });
  check_throws(ErrorKind::value,
               {"no saved slot matches \"gelu.x\"; the nearest names are layers.0 gelu.x"},
               [&] { (void)graph::recomputed(gpt, {"gelu.x"}); });
  check_throws(ErrorKind::value, {"masked_fill.mask is no result of an operation"},
               [&] { (void)graph::recomputed(gpt, {"*masked_fill.mask"}); });
  Graph two = gpt;
  const auto softmax = std::find_if(two.nodes.begin(), two.nodes.end(),
                                    [](const auto& node) { return node.operation == "softmax"; });
  two.nodes.back().inputs.push_back(softmax->output);
  check_throws(ErrorKind::value, {"has several results"},
               [&] { (void)graph::checkpointed(two, "layers.*"); });
}

TEST_CASE("a what-if question says what it found, and why a slot frees nothing") {
  const Graph gpt = gpt_step();
  CHECK(graph::checkpoint_matches(gpt, "layers.1.norm?") ==
        Matches{{.name = "layers.1.norm1"}, {.name = "layers.1.norm2"}});
  CHECK(graph::fuse_matches(gpt, "layers.1") == Matches{{.name = "layers.1.self_attn"}});

  // Both slots keep the weights, so one alone frees nothing.
  const std::string softmax = "layers.0.self_attn softmax.y",
                    matmul = "layers.0.self_attn matmul#2.a";
  const Matches one = graph::recompute_matches(gpt, {softmax});
  CHECK(one == Matches{{softmax, 0, matmul + " keeps the same storage"}});
  CHECK(graph::recomputed(gpt, {softmax}).saved_bytes() == gpt.saved_bytes());
  const Matches both = graph::recompute_matches(gpt, {matmul, softmax});
  REQUIRE(both.size() == 2);
  CHECK(both[0].name == softmax);
  CHECK(both[0].note.empty());
  CHECK(both[1] == graph::WhatIfMatch{matmul, 0, "counted with " + softmax});
  CHECK(gpt.saved_bytes() - graph::recomputed(gpt, {softmax, matmul}).saved_bytes() ==
        *both[0].freed);
  CHECK(graph::what_if_text(gpt, gpt, one).find("frees nothing: " + matmul) != std::string::npos);
}

TEST_CASE("of several operations of one name each has its number; without it all are meant") {
  const Graph gpt = gpt_step();
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> all;
    for (const graph::WhatIfMatch& match : graph::recompute_matches(gpt, {pattern}))
      all.push_back(match.name);
    return all;
  };
  using Names = std::vector<std::string>;
  const Names two{"layers.0.self_attn matmul#1.b", "layers.0.self_attn matmul#2.b"};
  CHECK(names("layers.0.self_attn matmul.b") == two);
  CHECK(names(two[0]) == Names{two[0]});
  CHECK(names(two[1]) == Names{two[1]});
  CHECK(graph::recomputed(gpt, {two[0]}) != graph::recomputed(gpt, {two[1]}));
  CHECK(graph::recomputed(gpt, two) == graph::recomputed(gpt, {"layers.0.self_attn matmul.b"}));
  CHECK(names("layers.1 gelu.x") == Names{"layers.1 gelu.x"});
  std::set<std::string> labels;
  const auto saved = nlohmann::json::parse(graph::saved_json(gpt, graph::saved_rows(gpt)));
  for (const auto& row : saved["rows"])
    CHECK(labels.insert(row["label"].get<std::string>()).second);
}

TEST_CASE("all slots are made again that can be; the others are told, and stay") {
  const Graph gpt = gpt_step();
  const auto matches = graph::recompute_matches(gpt, {"*"});
  const auto stay = std::ranges::count(matches, true, &graph::WhatIfMatch::stays);
  CHECK(std::ssize(matches) == std::ssize(graph::saved_rows(gpt)));
  CHECK(stay > 0);
  for (const graph::WhatIfMatch& match : matches)
    if (match.stays) CHECK(match.note == "no operation that could run again made it");
  const Graph then = graph::recomputed(gpt, {"*"});
  CHECK(std::ssize(then.saved) == std::ssize(gpt.saved) - (std::ssize(matches) - stay));
  CHECK(contains(graph::what_if_text(gpt, then, matches),
                 "left as they are: " + std::to_string(stay) + ", as "));
}

TEST_CASE("a checkpoint states its bound where layers share a mask that each may make anew") {
  const StepOptions options{.batch = 1, .time = 64};
  const Graph plain = gpt_step(options);
  const auto matches = graph::checkpoint_matches(plain, "layers.*.self_attn");
  REQUIRE(matches.size() == 2);
  CHECK(contains(matches[0].note, "the mask (64, 64), which operations outside it keep too"));
  CHECK(contains(matches[0].note, "the peak is lower, by at most 4,096 bytes"));
  CHECK(matches[1].note.empty());  // the same mask, so the same bytes
  CHECK(graph::checkpoint_matches(attention_step(), "attn")[0].note.empty());
}

TEST_CASE("an attention that is the unnamed root is fused by (root) and by *") {
  Graph unnamed = attention_step();
  for (Graph::Node& node : unnamed.nodes)
    if (node.module == "attn") node.module.clear();
  const Graph named = attention_step();
  for (const char* pattern : {"(root)", "*"}) {
    CAPTURE(pattern);
    CHECK(graph::fuse_matches(unnamed, pattern) == Matches{{.name = ""}});
    check_equal_figures(graph::fused(unnamed, pattern), graph::fused(named, "attn"));
    CHECK(contains(graph::what_if_text(unnamed, unnamed, graph::fuse_matches(unnamed, pattern)),
                   "\n  (root)\n"));
  }
  for (const char* pattern : {"", "?", "root"})
    check_throws(ErrorKind::value, {"no module matches", "the nearest names are (root) and "},
                 [&] { (void)graph::fused(unnamed, pattern); });
}

TEST_CASE("the root's operations are those that no named module runs") {
  Graph gpt = gpt_step();
  const auto in_root = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Graph::Node& node) {
      return node.module.empty() && !node.recomputed;
    });
  };
  REQUIRE(in_root(gpt) > 0);
  check_throws(ErrorKind::value, {"no composed attention in \"(root)\""},
               [&] { (void)graph::fused(gpt, "(root)"); });
  const auto matches = graph::checkpoint_matches(gpt, "*");
  CHECK(std::ranges::count(matches, "", &graph::WhatIfMatch::name) == 1);
  CHECK(std::ranges::count(matches, "layers", &graph::WhatIfMatch::name) == 1);
  CHECK(matches.back().stays);
  const Graph then = graph::checkpointed(gpt, "*");
  CHECK(std::ranges::count(then.nodes, "checkpoint", &Graph::Node::operation) ==
        std::ssize(matches) - 1);
  CHECK(contains(graph::what_if_text(gpt, then, matches),
                 "left as they are: 1, as (root): no module that runs as one\n"));
  check_throws(ErrorKind::value, {"(root) is no module that runs as one"},
               [&] { (void)graph::checkpointed(gpt, "(root)"); });
}

TEST_CASE("what is told of several modules in a row is told once") {
  const Graph gpt = gpt_step({.layers = 30});
  const std::string text =
      graph::what_if_text(gpt, graph::fused(gpt, "*"), graph::fuse_matches(gpt, "*"));
  CHECK(contains(text, "\nmatched: 30\n  layers.0.self_attn to layers.29.self_attn (30)\n"));
}

TEST_CASE("attention in several modules is fused at once, each once") {
  const Graph gpt = gpt_step();
  CHECK(graph::fused(gpt, Paths{"layers.1", "layers.0", "*"}) == graph::fused(gpt, "*"));
  CHECK(graph::fuse_matches(gpt, Paths{"layers.1", "*"}).size() == 2);
  check_throws(ErrorKind::value, {"no composed attention in \"layers.0.norm1\""}, [&] {
    (void)graph::fused(gpt, Paths{"*", "layers.0.norm1"});
  });
}

TEST_CASE("the fused path states its bound where a causal mask is combined with padding") {
  const nn::Mask padding = nn::Mask::hide(zeros({32, 1, 1, 8}, DType::boolean));
  const auto note = [](const nn::Mask& mask) {
    const auto matches =
        graph::fuse_matches(biased_step(mask, false, nn::AttentionPath::composed), "attn");
    REQUIRE(matches.size() == 1);
    return matches[0].note;
  };
  CHECK(note(nn::Mask::causal()).empty());
  CHECK(note(padding).empty());
  const std::string both = note(nn::Mask::causal() & padding);
  CHECK(both.find("too high by at most 2,048 bytes") != std::string::npos);  // 32 x 8 x 8
}

TEST_CASE("the fused path's flops are called what they are, with what they leave out") {
  const Graph gpt = gpt_step();
  const std::string note = "makes q k^T once more in the backward pass",
                    label = "\nflops, with recomputation ";
  const std::string fused = graph::what_if_text(gpt, graph::fused(gpt, "*"));
  CHECK(contains(fused, label));
  CHECK(contains(fused, note));
  const auto notes = [&](const Graph& then) {
    return nlohmann::json::parse(graph::what_if_json(gpt, then))["notes"];
  };
  const nlohmann::json told = notes(graph::fused(gpt, "*"));
  REQUIRE(told.size() == 1);
  CHECK(contains(told[0].get<std::string>(), note));
  CHECK(notes(graph::checkpointed(gpt, "layers.*")) == nlohmann::json::array());
  const std::string kept = graph::what_if_text(gpt, graph::checkpointed(gpt, "layers.*"));
  CHECK(contains(kept, label));
  CHECK_FALSE(contains(kept, note));
}
