#include "plan.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/graph/internal/labels.h>
#include <tapehead/nn/optimizer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "../option_rules.h"
#include "../train/evaluate.h"

namespace tapehead::program {
namespace {

constexpr std::int64_t most_layers = 10000;  // every one of them is run

std::string sizes_text(const TrainingSetup& setup) {
  const nn::GptOptions& m = setup.model;
  return "--layers " + std::to_string(m.layers) + " --heads " + std::to_string(m.heads) +
         " --dim " + std::to_string(m.dim) + " --context " + std::to_string(m.context) +
         " --vocabulary " + std::to_string(m.vocab_size) + " --batch " +
         std::to_string(setup.batch);
}

std::unique_ptr<nn::Optimizer> make_optimizer(PlanOptimizer kind, const nn::Gpt& model) {
  if (kind == PlanOptimizer::sgd) return std::make_unique<nn::SGD>(model);
  return std::make_unique<nn::AdamW>(model);
}

Tensor make_tokens(const TrainingSetup& setup) {
  return empty("plan", {setup.batch, setup.model.context}, DType::i64, Category::input);
}

}  // namespace

void check(const TrainingSetup& setup) {
  const nn::GptOptions& m = setup.model;
  const OptionRules rules("plan");
  rules.positive("--layers", m.layers);
  rules.positive("--heads", m.heads);
  rules.positive("--dim", m.dim);
  rules.positive("--context", m.context);
  rules.positive("--vocabulary", m.vocab_size);
  rules.positive("--batch", setup.batch);
  rules.require(m.layers <= most_layers, option_text("--layers", m.layers) + ": more than " +
                                             std::to_string(most_layers) + " are not planned");
  rules.heads(m.dim, m.heads);
  rules.dropout(m.dropout);
  rules.require(is_countable(setup),
                sizes_text(setup) + ": a step's operations or bytes do not fit in 64 bits");
}

bool is_countable(const TrainingSetup& setup) {
  const nn::GptOptions& m = setup.model;
  const auto L = static_cast<double>(m.layers), d = static_cast<double>(m.dim);
  const auto T = static_cast<double>(m.context), V = static_cast<double>(m.vocab_size);
  const auto tokens = static_cast<double>(setup.batch) * T, h = static_cast<double>(m.heads);
  const double flops = 2 * tokens * (L * (12 * d * d + 2 * T * d) + V * d);
  const double bytes = 8 * (tokens * (L * (40 * d + 8 * h * T) + 8 * V) +
                            4 * (L * 12 * d * d + (2 * V + T) * d + T * T));
  return std::max(flops, bytes) < 0x1p61;
}

Graph training_step(const TrainingSetup& setup) {
  check(setup);
  const DryRun dry;
  Generator generator;
  const nn::Gpt model(setup.model, generator);
  const std::unique_ptr<nn::Optimizer> optimizer = make_optimizer(setup.optimizer, model);
  const Batch batch{.inputs = make_tokens(setup), .targets = make_tokens(setup)};
  optimizer->step(loss_gradients(model, batch));
  const Ledger ledger;
  optimizer->step(loss_gradients(model, batch));
  return ledger.graph();
}

// ---- costs -------------------------------------------------------------------------------------

namespace {

std::int64_t of(const graph::BytesByCategory& bytes, Category category) {
  return bytes[static_cast<std::size_t>(category)];
}

// A storage takes at most an eighth more than was asked for, or 63 bytes if that is more
// (core/memory.cpp).
std::int64_t most_reserved(const Graph& graph, std::int64_t peak) {
  return peak + peak / 8 + 64 * std::ssize(graph.storages);
}

void add_peak(const Graph& graph, Costs& costs) {
  const graph::Timeline line = graph::timeline(graph);
  for (std::size_t i = 0; i < graph.steps.size(); ++i)
    if (graph.steps[i].phase == Graph::Phase::backward)
      costs.gradients = of(line.after[i], Category::gradient);
  costs.optimizer_state = of(line.after.back(), Category::optimizer_state);
  costs.peak = line.peak;
  costs.at_peak = line.at_peak;
  if (line.peak_step >= 0)
    costs.peak_step = graph::describe(graph.steps[static_cast<std::size_t>(line.peak_step)]);
  costs.most_reserved = most_reserved(graph, line.peak);
}

}  // namespace

Costs costs_of(const Graph& graph) {
  Costs costs;
  for (const Graph::Storage& storage : graph.storages)
    if (storage.category == Category::parameter) costs.parameters += storage.bytes;
  costs.saved_activations = graph.saved_activation_bytes();
  add_peak(graph, costs);
  costs.flops = graph.forward_flops();
  costs.recomputed = graph.recomputed_flops();
  costs.planned = std::ranges::count(graph.nodes, true, &Graph::Node::planned);
  costs.modules = graph::folded(graph::module_sums_with_parameters(graph));
  return costs;
}

// ---- closed forms ------------------------------------------------------------------------------

namespace {

using graph::Dimension;
using graph::Polynomial;

graph::Quantities other_quantities(const Costs& costs) {
  return {{"parameters", costs.parameters},
          {"gradients", costs.gradients},
          {"optimizer state", costs.optimizer_state}};
}

// All near the sizes of the setup, for a peak has a form within its regime only. The numbers of
// heads and the features are such that any of the former divides any of the latter.
std::vector<Dimension> dimensions_near(const TrainingSetup& setup) {
  const nn::GptOptions& m = setup.model;
  const auto in_steps = [](std::int64_t first, std::int64_t step, int degree) {
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < degree + 2; ++i) sizes.push_back(first + i * step);
    return sizes;
  };
  const std::int64_t unit = 4 * m.heads;
  const std::int64_t features = (m.dim + unit - 1) / unit * unit;
  return {{"L", 1, in_steps(m.layers, 1, 1)},     {"B", 1, in_steps(setup.batch, 1, 1)},
          {"h", 1, {m.heads, 2 * m.heads, unit}}, {"T", 2, in_steps(m.context, 1, 2)},
          {"d", 2, in_steps(features, unit, 2)},  {"V", 1, in_steps(m.vocab_size, 1, 1)}};
}

TrainingSetup with_sizes(TrainingSetup setup, graph::DimensionSizes sizes) {
  setup.model.layers = sizes[0];
  setup.batch = sizes[1];
  setup.model.heads = sizes[2];
  setup.model.context = sizes[3];
  setup.model.dim = sizes[4];
  setup.model.vocab_size = sizes[5];
  return setup;
}

std::vector<std::int64_t> sizes_of(const TrainingSetup& setup) {
  const nn::GptOptions& m = setup.model;
  return {m.layers, setup.batch, m.heads, m.context, m.dim, m.vocab_size};
}

}  // namespace

FormsNear forms_near(const TrainingSetup& setup) {
  check(setup);
  const std::vector<Dimension> tried = dimensions_near(setup);
  std::set<std::string> peak_steps;
  const auto measure = [&](const Graph& graph) {
    const Costs costs = costs_of(graph);
    peak_steps.insert(graph::label_without_numbers(costs.peak_step));
    return other_quantities(costs);
  };
  FormsNear forms{graph::closed_forms(
      [&](graph::DimensionSizes sizes) { return training_step(with_sizes(setup, sizes)); }, tried,
      measure)};
  forms.tried = tried;
  forms.peak_steps = peak_steps;
  const Costs costs = costs_of(training_step(setup));
  const std::vector<std::int64_t> sizes = sizes_of(setup);
  const auto keep = [&](std::optional<Polynomial>& form, std::int64_t value) {
    if (form && (*form)(sizes) != value) form.reset();
  };
  keep(forms.saved_activations, costs.saved_activations);
  keep(forms.flops, costs.flops);
  keep(forms.recomputed, costs.recomputed);
  keep(forms.peak, costs.peak);
  keep(forms.others["parameters"], costs.parameters);
  keep(forms.others["gradients"], costs.gradients);
  keep(forms.others["optimizer state"], costs.optimizer_state);
  return forms;
}

// ---- what fits ---------------------------------------------------------------------------------

std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits) {
  if (!fits(1)) return 0;
  std::int64_t good = 1;
  while (fits(2 * good)) good *= 2;
  for (std::int64_t step = good / 2; step > 0; step /= 2)
    if (fits(good + step)) good += step;
  return good;
}

}  // namespace tapehead::program
