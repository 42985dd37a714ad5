#include "command.h"

#include <algorithm>
#include <iostream>

#include "../commands.h"
#include "choices.h"
#include "models.h"
#include "report.h"

namespace tapehead::program {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw ValueError("plan", what); }

template <class T, std::size_t n>
T chosen(const char* option, const std::string& text, const Choices<T, n>& choices) {
  std::string names;
  for (const Choice<T>& choice : choices) {
    if (choice.option == text) return choice.value;
    names += (names.empty() ? "" : ", ") + std::string(choice.option);
  }
  refuse("--" + std::string(option) + " " + text + ": it must be one of " + names);
}

void replace(std::int64_t& size, const std::optional<std::int64_t>& given) {
  if (given) size = *given;
}

nn::GptOptions model_of(const PlanCommand& command) {
  const bool has_context = command.context || command.fit == "context";
  const bool has_sizes =
      command.layers && command.heads && command.dim && command.vocabulary && has_context;
  if (!command.model && !has_sizes)
    refuse("it needs --model, or --layers, --heads, --dim, --context and --vocabulary");
  nn::GptOptions model = command.model ? plan_model(*command.model) : nn::GptOptions{};
  replace(model.layers, command.layers);
  replace(model.heads, command.heads);
  replace(model.dim, command.dim);
  replace(model.context, command.context);
  replace(model.vocab_size, command.vocabulary);
  model.dropout = command.dropout.value_or(model.dropout);
  model.tied_output = model.tied_output || command.tied_output;
  return model;
}

TrainingSetup setup_of(const PlanCommand& command) {
  TrainingSetup setup{.model = model_of(command), .batch = command.batch.value_or(1)};
  setup.model.dtype = chosen("dtype", command.dtype, dtypes);
  setup.model.path = chosen("attention", command.attention, attention_paths);
  setup.model.checkpoint = chosen("checkpoint", command.checkpoint, checkpoints);
  setup.optimizer = chosen("optimizer", command.optimizer, optimizers);
  return setup;
}

// Makes the size that --fit names the largest that fits, or 1.
Fit fit(const PlanCommand& command, std::int64_t memory, TrainingSetup& setup) {
  const std::string& what = *command.fit;
  const Choices<std::int64_t*, 2> sizes = {
      {{"batch", &setup.batch}, {"context", &setup.model.context}}};
  std::int64_t& size = *chosen("fit", what, sizes);
  if (what == "batch" ? command.batch.has_value() : command.context.has_value())
    refuse("--" + what + " is what --fit " + what + " finds: give one of them");
  const std::int64_t largest = largest_that_fits([&](std::int64_t candidate) {
    size = candidate;
    if (candidate > 1 && !is_countable(setup))
      refuse("--memory " + *command.memory + ": a " + what +
             " that fills so much has more operations or bytes than fit in 64 bits; give less");
    return verdict(costs_of(training_step(setup)), memory) == Verdict::fits;
  });
  size = std::max<std::int64_t>(largest, 1);
  return {what, largest};
}

RanksSetup ranks_setup_of(const PlanCommand& command) {
  RanksSetup setup;
  const bool needs_ranks = command.bandwidth || command.latency || command.gflops;
  if (needs_ranks && !command.ranks) refuse("--bandwidth, --latency and --gflops need --ranks");
  setup.ranks = command.ranks.value_or(1);
  if (command.bandwidth) setup.bytes_per_second = 1e9 * *command.bandwidth;
  if (command.latency) setup.latency = *command.latency / 1e6;
  if (command.gflops) setup.flops_per_second = 1e9 * *command.gflops;
  check(setup);
  return setup;
}

}  // namespace

int run_plan(const PlanCommand& command) {
  PlanReport report{
      .name = command.model.value_or("a Gpt"), .setup = setup_of(command), .costs = {}};
  if (command.memory) report.memory = parse_memory(*command.memory);
  if (command.fit && !report.memory) refuse("--fit needs --memory");
  if (command.fit) report.fit = fit(command, *report.memory, report.setup);
  report.ranks_setup = ranks_setup_of(command);
  const Graph step = training_step(report.setup);
  report.costs = costs_of(step);
  if (command.ranks) report.ranks = ranks_costs_of(step, report.ranks_setup);
  if (command.formula) report.forms = forms_near(report.setup);
  std::cout << (command.as_json ? plan_json(report) : plan_text(report));
  const bool fits = !report.memory || verdict(report.costs, *report.memory) == Verdict::fits;
  return fits ? done : bad_news;
}

}  // namespace tapehead::program
