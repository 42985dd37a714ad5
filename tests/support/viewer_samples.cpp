#include "viewer_samples.h"

#include <tapehead/graph/reports.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/layers.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "graph_figures.h"
#include "training_steps.h"

namespace tapehead::tests {
namespace {

// What would run, or upset a parser, if it were taken for anything but text.
const std::string hostile =
    "</script><script>document.title='broken'</script><img src=x onerror=\"document.title="
    "'broken'\">'\"&amp;<!--\u2028\u2029\\u003c \u202e{{data}}";

Graph with_hostile_names(Graph graph) {
  for (Graph::Node& node : graph.nodes) {
    node.operation += hostile;
    node.module = hostile;
    node.attributes.push_back({hostile, hostile});
  }
  for (Graph::Value& value : graph.values) value.name = hostile;
  for (Graph::SavedSlot& slot : graph.saved) slot.slot = slot.reason = hostile;
  for (Graph::Storage& storage : graph.storages) storage.operation = hostile;
  for (Graph::Step& step : graph.steps) step.module = step.operation = hostile;
  return graph;
}

struct Question {
  const char *sample, *kind;
  std::vector<std::string> patterns;
};

const std::vector<Question> questions = {
    {"attention", "checkpoint", {"attn"}},
    {"attention", "fuse", {"*"}},
    {"attention", "recompute", {"attn softmax.y"}},
    {"biased", "fuse", {"attn"}},
    {"biased", "checkpoint", {"attn"}},
    {"padded", "fuse", {"attn"}},
    {"residual", "checkpoint", {"part.*"}},
    {"residual", "checkpoint", {"part.ff"}},
    {"residual", "fuse", {"*"}},
    {"borders", "checkpoint", {"kept"}},
    {"borders", "checkpoint", {"read"}},
    {"borders", "checkpoint", {"views"}},
    {"borders", "checkpoint", {"difference"}},
    {"borders", "checkpoint", {"shift"}},
    {"borders", "checkpoint", {"bias"}},
    {"borders", "checkpoint", {"branch"}},
    {"borders", "checkpoint", {"fork"}},
    {"borders", "checkpoint", {"row"}},
    {"borders", "checkpoint", {"often"}},
    {"borders", "checkpoint", {"unreached"}},
    {"borders", "checkpoint", {"last"}},
    {"activations", "checkpoint", {"act.*"}},
    {"activations", "checkpoint", {"act.1"}},
    {"overwritten", "checkpoint", {"act"}},
    {"unreached", "checkpoint", {"act"}},
    {"alibi", "checkpoint", {"layers.*"}},
    {"alibi", "fuse", {"*"}},
    {"encoder", "checkpoint", {"layer"}},
    {"encoder", "checkpoint", {"layer.self_attn"}},
    {"encoder", "fuse", {"layer"}},
    {"encoder", "recompute", {"layer relu.y"}},
    {"encoder_norm_first", "checkpoint", {"layer"}},
    {"encoder_norm_first", "checkpoint", {"layer.self_attn"}},
    {"encoder_norm_first", "checkpoint", {"layer.linear?"}},
    {"encoder_norm_first", "checkpoint", {"layer.norm?"}},
    {"gpt", "checkpoint", {"layers.*"}},
    {"gpt", "checkpoint", {"layers.1"}},
    {"gpt", "checkpoint", {"*"}},
    {"gpt", "checkpoint", {"layers.*.self_attn"}},
    {"gpt", "fuse", {"layers.0"}},
    {"gpt", "fuse", {"*"}},
    {"gpt", "recompute", {"layers.* gelu.x"}},
    {"gpt", "recompute", {"*layer_norm.x"}},
    {"gpt", "recompute", {"layers.0.self_attn matmul#1.b"}},
    {"gpt", "recompute", {"layers.0.self_attn matmul.b"}},
    {"gpt", "recompute", {"*"}},
    {"gpt", "fuse", {"layers.1", "layers.0", "layers.0.self_attn"}},
    {"gpt", "recompute", {"layers.1 gelu.x", "layers.* gelu.x"}},
    {"combined", "fuse", {"attn"}},
    {"gpt_12", "checkpoint", {"layers.*"}},
    {"gpt_12", "checkpoint", {"layers.1", "layers.3.self_attn", "layers.3"}},
    {"gpt_12", "checkpoint", {"layers.?"}},
    {"gpt_12", "fuse", {"layers.1*"}},
    {"gpt_12", "recompute", {"layers.*.linear2 linear.x"}},
};

Graph answer(const Graph& graph, const Question& question) {
  const std::string kind = question.kind;
  if (kind == "checkpoint") return graph::checkpointed(graph, question.patterns);
  if (kind == "fuse") return graph::fused(graph, question.patterns);
  return graph::recomputed(graph, question.patterns);
}

nlohmann::json figures(const Graph& graph) {
  std::int64_t live_sum = 0;
  const graph::Timeline line = graph::timeline(graph);
  for (std::size_t i = 0; i < line.highest.size(); ++i)
    live_sum += static_cast<std::int64_t>(i + 1) * line.highest[i];
  return {{"saved_activation_bytes", graph.saved_activation_bytes()},
          {"saved_bytes", graph.saved_bytes()},
          {"peak_bytes", line.peak},
          {"category_bytes", nlohmann::json::parse(graph::peak_json(graph))["category_bytes"]},
          {"steps", line.highest.size()},
          {"live_sum", live_sum},
          {"flops", flops(graph)}};
}

}  // namespace

std::map<std::string, Graph> viewer_samples() {
  const StepOptions sizes{.batch = 8, .time = 24};
  StepOptions fused = sizes, deep = sizes, deepest{.batch = 1, .time = 4};
  fused.path = nn::AttentionPath::fused;
  deep.layers = 12;
  deepest.layers = 340;  // over 10,000 operations
  std::map<std::string, Graph> samples;
  samples["attention"] = attention_step(sizes);
  samples["biased"] = biased_step(nn::Mask(), true, nn::AttentionPath::composed);
  const nn::Mask padding = nn::Mask::padding(std::vector<std::int64_t>(32, 5));
  samples["padded"] = biased_step(padding, false, nn::AttentionPath::composed);
  samples["combined"] =
      biased_step(nn::Mask::causal() & padding, false, nn::AttentionPath::composed);
  samples["residual"] = residual_step(sizes);
  samples["borders"] = borders_step();
  samples["activations"] = activation_step(
      [](Tensor x) { return nn::Dropout(0.5)(relu(std::move(x) + 1.0)); }, 3, false);
  samples["overwritten"] = overwritten_step(Overwritten::view, false);
  samples["unreached"] = overwritten_step(Overwritten::unreached, false);
  samples["alibi"] = gpt_step({.batch = 8, .time = 24, .biased = true});
  samples["encoder"] = encoder_step({.dropout = 0.25, .batch = 4, .time = 32});
  samples["encoder_norm_first"] = encoder_step({.norm_first = true, .batch = 16, .time = 16});
  samples["gpt"] = gpt_step(sizes);
  samples["gpt_fused"] = gpt_step(fused);
  samples["gpt_square"] = gpt_step({.batch = 8, .time = 12});  // as many tokens as features
  samples["gpt_12"] = gpt_step(deep);
  samples["gpt_340"] = gpt_step(deepest);
  samples["empty"] = Graph();
  samples["hostile"] = with_hostile_names(attention_step());
  samples["unwatched"] = samples["gpt"];
  samples["unwatched"].steps.clear();
  samples["unwatched"].events.clear();
  return samples;
}

std::string what_if_answers(const std::map<std::string, Graph>& samples) {
  std::string text = "[";
  for (const Question& question : questions) {
    const nlohmann::json line = {{"sample", question.sample},
                                 {"kind", question.kind},
                                 {"patterns", question.patterns},
                                 {"then", figures(answer(samples.at(question.sample), question))}};
    text += (text.size() > 1 ? ",\n" : "\n") + line.dump();
  }
  return text + "\n]\n";
}

}  // namespace tapehead::tests
