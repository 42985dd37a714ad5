// What training a model would cost, from dry runs of the real one: nothing is modelled by hand.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/graph/closed_form.h>
#include <tapehead/graph/module_tree.h>
#include <tapehead/graph/timeline.h>
#include <tapehead/nn/gpt.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tapehead::program {

enum class PlanOptimizer { sgd, adamw };

/// A model, and how it is trained: sequences as long as its context, `batch` of them a step.
struct TrainingSetup {
  nn::GptOptions model;
  std::int64_t batch = 1;
  PlanOptimizer optimizer = PlanOptimizer::adamw;
};

/// ValueError that names the option (--dim) which cannot be, and the rule: a size that is not
/// positive, dim that is no multiple of heads, dropout outside [0, 1), or sizes so large that
/// counts do not fit in 64 bits.
void check(const TrainingSetup& setup);

/// Whether a step's operations and bytes fit in 64 bits; generous on purpose. Sizes are positive.
bool is_countable(const TrainingSetup& setup);

/// A dry run's training step, as a Ledger saw it: forward, loss, backward, update. It is the second
/// one, in which the optimizer's state is there from the beginning. Errors as check().
Graph training_step(const TrainingSetup& setup);

/// Bytes are those that tensors ask for.
struct Costs {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< at the end of the backward pass
  std::int64_t optimizer_state = 0;
  std::int64_t saved_activations = 0;
  std::int64_t peak = 0;
  graph::BytesByCategory at_peak{};  ///< what `peak` consists of
  std::string peak_step;             ///< "backward of linear in layers.11"
  std::int64_t most_reserved = 0;    ///< what buffers for the peak occupy at the most
  std::int64_t flops = 0;            ///< of matrix products in the forward pass
  std::int64_t recomputed = 0;       ///< of those computed again in the backward pass
  std::int64_t planned = 0;          ///< operations that a real run would refuse
  graph::ModuleSums modules;         ///< with parameters, layers folded
};

/// The costs of a graph that training_step() returned.
Costs costs_of(const Graph& graph);

/// Closed forms, what they were made of, and why the peak may have none.
struct FormsNear : graph::GraphForms {
  std::vector<graph::Dimension> tried = {};  ///< the sizes of the runs
  /// In which steps the peaks of these runs fell, modules without numbers. One form holds in one.
  std::set<std::string> peak_steps = {};
};

/// Closed forms in L layers, B sequences, h heads, T positions, d features and a vocabulary of V,
/// sampled near the sizes of `setup`. `others` has "parameters", "gradients" and "optimizer state".
/// What does not give the figures of `setup` itself has no form. Errors as check().
FormsNear forms_near(const TrainingSetup& setup);

/// The largest size that fits, found by doubling and bisection; 0 when 1 does not fit. Whatever is
/// smaller than a size that fits must fit.
std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits);

}  // namespace tapehead::program
