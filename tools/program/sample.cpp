// tapehead sample: continues a text with a trained model.
#include <iostream>
#include <memory>

#include "checkpoint.h"
#include "command.h"
#include "sampling.h"

namespace tapehead::program {
namespace {

struct SampleCommandOptions {
  std::string model;
  std::optional<std::string> prompt;
  std::int64_t tokens = 300;
  double temperature = 0.8;
  std::optional<std::int64_t> top_k;
  std::uint64_t seed = 1;
};

void run_sample(const SampleCommandOptions& options) {
  const nn::SampleOptions how{.temperature = options.temperature, .top_k = options.top_k};
  nn::check(how);
  const StoredModel stored = load_model(options.model);
  Generator generator(options.seed);
  std::cout << sample_text(stored.model, stored.vocabulary, options.prompt, options.tokens, how,
                           generator)
            << "\n";
}

}  // namespace

void add_sample(CLI::App& app) {
  const auto options = std::make_shared<SampleCommandOptions>();
  CLI::App* command = app.add_subcommand(
      "sample",
      "Continues a prompt with a model that `tapehead train` saved.\n"
      "Example: tapehead sample --model tapehead-run --prompt 'Tensor ' --tokens 200");
  command->add_option("--model", options->model, "Folder of the run")->required();
  command->add_option("--prompt", options->prompt, "Text to continue; without it, a new line");
  command->add_option("--tokens", options->tokens, "Characters to add")->capture_default_str();
  command
      ->add_option("--temperature", options->temperature,
                   "Below 1 more likely, above 1 more varied, 0 always the likeliest")
      ->capture_default_str();
  command->add_option("--top-k", options->top_k, "Choose among the k likeliest characters only");
  command->add_option("--seed", options->seed, "Of the random choices")->capture_default_str();
  command->callback([options] { run_sample(*options); });
}

}  // namespace tapehead::program
