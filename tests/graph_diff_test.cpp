#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/graph/diff.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::tests;
using graph::Diff;
using nlohmann::json;

namespace {

std::int64_t count(const std::vector<Diff::Entry>& entries, Diff::Kind kind) {
  return std::count_if(entries.begin(), entries.end(),
                       [&](const Diff::Entry& entry) { return entry.kind == kind; });
}

const Diff::Entry& only(const std::vector<Diff::Entry>& entries) {
  REQUIRE(entries.size() == 1);
  return entries.front();
}

std::size_t index_of(const Graph& graph, const std::string& operation) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const auto& node) { return node.operation == operation; });
  REQUIRE(found != graph.nodes.end());
  return static_cast<std::size_t>(found - graph.nodes.begin());
}

}  // namespace

TEST_CASE("a graph does not differ from itself, nor from that of the same step") {
  const Graph graph = gpt_step();
  CHECK(graph::diff(graph, graph).equal());
  CHECK(graph::diff(graph, gpt_step()).equal());
  CHECK(graph::diff_text(graph::diff(graph, graph)).find("no difference") != std::string::npos);
}

TEST_CASE("what the fused path changes is removed and added, and the totals are the graphs'") {
  const Graph composed = gpt_step({.time = 40}),
              fused = gpt_step({.path = nn::AttentionPath::fused, .time = 40});
  const Diff diff = graph::diff(composed, fused);
  CHECK_FALSE(diff.equal());
  CHECK(diff.before.activations == composed.saved_activation_bytes());
  CHECK(diff.after.activations == fused.saved_activation_bytes());
  CHECK(diff.after.peak < diff.before.peak);
  std::vector<std::string> added, removed;
  for (const Diff::Entry& node : diff.nodes) {
    if (node.kind == Diff::Kind::added) added.push_back(node.place);
    if (node.kind == Diff::Kind::removed) removed.push_back(node.place);
  }
  CHECK(added == std::vector<std::string>{"layers.0.self_attn fused_attention",
                                          "layers.1.self_attn fused_attention"});
  for (const char* gone : {"layers.0.self_attn softmax", "layers.1.self_attn masked_fill",
                           "layers.1.self_attn matmul#2"})
    CHECK(std::count(removed.begin(), removed.end(), gone) == 1);
}

TEST_CASE("what changed alike in a stack's layers stands once in the text") {
  const Graph gpt = gpt_step({.layers = 12}),
              fused = gpt_step({.path = nn::AttentionPath::fused, .layers = 12});
  const std::string text = graph::diff_text(graph::diff(gpt, fused));
  CHECK(contains(text, "\n- layers.0-11.self_attn softmax x 12\n"));
  CHECK(contains(text,
                 "\n+ layers.0-11.self_attn fused_attention.v x 12\n    made by: "
                 "layers.*.self_attn linear#3 with in_proj_weight[24:36]\n"));
  CHECK(std::regex_search(text, std::regex("x 12\n[^-+~>]*; keeps [0-9,.() KiB]+ each\n")));
  CHECK_FALSE(contains(text, "layers.0."));
  CHECK(contains(text, "\noperations: 60 removed, 12 added, 24 changed\n"));  // each of them

  // The first layer's input is no layer's result.
  const std::string kept = graph::diff_text(graph::diff(gpt, graph::checkpointed(gpt, "layers.*")));
  CHECK(contains(kept, "\n+ layers.0 checkpoint.input\n"));
  CHECK(contains(kept,
                 "\n+ layers.1-11 checkpoint.input x 11\n    made by: layers.* checkpoint with "
                 "norm1.weight\n"));

  Graph other = gpt;
  for (Graph::Node& node : other.nodes)
    if (node.operation == "softmax" && node.module == "layers.4.self_attn") node.flops = 1;
  const std::string one = graph::diff_text(graph::diff(gpt, other));
  CHECK(contains(one, "\n~ layers.4.self_attn softmax\n"));
  CHECK_FALSE(contains(one, " x "));
}

TEST_CASE("slots of one name say what made the value that they keep") {
  const Diff diff =
      graph::diff(attention_step(), attention_step({.path = nn::AttentionPath::fused}));
  std::vector<std::string> made;
  for (const Diff::Entry& slot : diff.slots)
    if (slot.place == "attn matmul#1.b" || slot.place == "attn fused_attention.v")
      made.push_back(slot.made_by);
  CHECK(made == std::vector<std::string>{"attn linear#2 with in_proj_weight[12:24]",
                                         "attn linear#3 with in_proj_weight[24:36]"});
  CHECK(graph::diff_text(diff).find("\n    made by: " + made[0] + "\n") != std::string::npos);
}

TEST_CASE("slots that keep parameters name them, each with its number") {
  const Diff diff = graph::diff(gpt_step(), gpt_step({.checkpointed = true}));
  std::set<std::string> places;
  for (const Diff::Entry& slot : diff.slots)
    if (slot.kind == Diff::Kind::added && contains(slot.place, "checkpoint") &&
        slot.name.starts_with("layers.0."))
      CHECK(places.insert(slot.place).second);
  CHECK(places.size() == 12);
  CHECK(contains(graph::diff_text(diff), "\n    value: layers.0.linear1.weight\n"));
}

TEST_CASE("an attribute, a shape and a slot's bytes are changes of what stays in its place") {
  const Graph before = attention_step();
  Graph after = before;
  after.nodes[index_of(after, "masked_fill")].attributes[0].value = -1.0;
  const Diff::Entry node = only(graph::diff(before, after).nodes);
  CHECK(node.kind == Diff::Kind::changed);
  CHECK(node.place == "attn masked_fill");
  CHECK(node.before != node.after);
  CHECK(node.after.find("value -1.0") != std::string::npos);

  after = before;
  after.packings.push_back({"bf16", 12});
  after.saved[0].packing = 0;
  const Diff diff = graph::diff(before, after);
  CHECK(diff.nodes.empty());
  const Diff::Entry& slot = only(diff.slots);
  CHECK(slot.kind == Diff::Kind::changed);
  CHECK(slot.bytes_after == 12);
  CHECK(slot.bytes_before > 12);
}

TEST_CASE("a slot that another module keeps now has moved, with its bytes") {
  const Graph before = attention_step();
  Graph after = before;
  const std::size_t softmax = index_of(after, "softmax");
  after.nodes[softmax].module = "other";
  const Diff diff = graph::diff(before, after);
  CHECK(count(diff.nodes, Diff::Kind::removed) == 1);
  CHECK(count(diff.nodes, Diff::Kind::added) == 1);
  const Diff::Entry& slot = only(diff.slots);
  CHECK(slot.kind == Diff::Kind::moved);
  CHECK(slot.place == "attn softmax.y");
  CHECK(slot.to == "other softmax.y");
  CHECK(diff.moved_bytes() == 2 * 3 * 6 * 6 * 4);
}

TEST_CASE("one operation more shifts nothing but what follows it under the same name") {
  const Graph before = attention_step();
  Graph after = before;
  after.nodes.push_back(
      {.operation = "neg", .module = "attn", .attributes = {}, .inputs = {0}, .output = 0});
  const Diff::Entry node = only(graph::diff(before, after).nodes);
  CHECK(node.kind == Diff::Kind::added);
  CHECK(node.place == "attn neg");
  CHECK(graph::diff(after, before).nodes.front().kind == Diff::Kind::removed);
  after = before;
  after.nodes.push_back(before.nodes[index_of(before, "softmax")]);
  CHECK(only(graph::diff(before, after).nodes).place == "attn softmax#2");
}

TEST_CASE("a diff counts what changed, and says that a peak is unknown") {
  const Graph before = attention_step();
  Graph after = before;
  after.nodes[index_of(after, "softmax")].module = "other";
  CHECK(contains(graph::diff_text(graph::diff(before, after)),
                 "\noperations: 1 removed, 1 added\nsaved slots: 1 moved (864 bytes)\n"));
  after.events.clear();
  CHECK(std::regex_search(graph::diff_text(graph::diff(before, after)),
                          std::regex("\npeak, bytes +[0-9,]+ +unknown +unknown\n")));
}

TEST_CASE("what a diff adds to the saved bytes counts each storage once, and so adds up") {
  const Graph small = gpt_step({.batch = 1}), gpt = gpt_step();
  for (const Graph& other : {small, gpt_step({.checkpointed = true}), graph::fused(gpt, "*"),
                             gpt_step({.path = nn::AttentionPath::fused, .layers = 1})})
    for (const bool swapped : {false, true}) {
      const Graph &before = swapped ? other : gpt, &after = swapped ? gpt : other;
      const Diff diff = graph::diff(before, after);
      const std::string text = graph::diff_text(diff);
      const std::size_t begin = text.find("\nsaved slots: "), end = text.find("\n\n", begin);
      REQUIRE(begin != std::string::npos);
      std::int64_t sum = 0;
      std::string line = text.substr(begin, end - begin);
      std::erase(line, ',');
      std::ranges::replace(line, '\n', ' ');
      for (std::smatch found; std::regex_search(line, found, std::regex("\\(([+-][0-9]+) "));
           line = found.suffix())
        sum += std::stoll(found[1]);
      CHECK(sum == after.saved_bytes() - before.saved_bytes());
    }
}

TEST_CASE("a diff counts as operations what other reports do, and apart what ran again") {
  const Graph plain = gpt_step(), checkpointed = gpt_step({.checkpointed = true});
  const Diff::Totals after = graph::diff(plain, checkpointed).after;
  CHECK(after.operations == json::parse(graph::summary_json(checkpointed))["operations"]);
  CHECK(after.operations + after.recomputed == std::ssize(checkpointed.nodes));
  CHECK(after.recomputed > 0);
}

TEST_CASE("tapehead graph diff tells by its exit code whether two files differ") {
  const Folder folder;
  const std::string a = folder.file("a.json").string(), b = folder.file("b.json").string();
  const std::string out = folder.file("out").string();
  const Graph composed = attention_step(),
              fused = attention_step({.path = nn::AttentionPath::fused});
  graph::write_json(composed, folder.file("a.json"));
  graph::write_json(fused, folder.file("b.json"));
  CHECK(run_program("graph diff " + a + " " + a + " > " + out) == 0);
  CHECK(run_program("graph diff " + a + " " + b + " -o " + out) == 1);
  const std::string text = io::read_file("test", out);
  CHECK(text == graph::diff_text(graph::diff(composed, fused), a, b));
  CHECK(text.starts_with("before: " + a + "\nafter:  " + b + "\n"));
  CHECK(run_program("graph diff " + a + " " + b + " --json > " + out) == 1);
  const json report = json::parse(io::read_file("test", out));
  CHECK(report["equal"] == false);
  CHECK(report["after"]["saved_activation_bytes"] == fused.saved_activation_bytes());
  CHECK(run_program("graph diff " + a + " " + out + " 2> /dev/null") == 2);
  CHECK(run_program("graph diff " + a + " 2> /dev/null") == 2);
}
