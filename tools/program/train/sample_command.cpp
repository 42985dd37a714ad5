#include "sample_command.h"

#include <iostream>

#include "../option_rules.h"
#include "checkpoint.h"
#include "sampling.h"

namespace tapehead::program {

namespace {

void check(const SampleCommand& c) {
  const OptionRules rules("sample");
  rules.must(c.tokens >= 0, option_text("--tokens", c.tokens), "not be negative");
  rules.must(c.temperature >= 0, option_text("--temperature", c.temperature), "not be negative");
  rules.must(!c.prompt || !c.prompt->empty(), "--prompt",
             "have a character; without the option a new line is continued");
  if (c.top_k) rules.positive("--top-k", *c.top_k);
}

}  // namespace

int run_sample(const SampleCommand& command) {
  check(command);
  const nn::SampleOptions how{.temperature = command.temperature, .top_k = command.top_k};
  const StoredModel stored = load_model(command.model);
  Generator generator(command.seed);
  std::cout << sample_text(stored.model, stored.vocabulary, command.prompt, command.tokens, how,
                           generator)
            << "\n";
  return done;
}

}  // namespace tapehead::program
