#include <iostream>
#include <sstream>

#include "checkpoint.h"
#include "commands.h"
#include "sampling.h"

namespace tapehead::program {

namespace {

void require(bool holds, const std::string& broken) {
  if (!holds) throw ValueError("sample", broken);
}

void check(const SampleCommand& c) {
  std::ostringstream temperature;
  temperature << "--temperature " << c.temperature;
  require(c.tokens >= 0, "--tokens " + std::to_string(c.tokens) + ": it must not be negative");
  require(c.temperature >= 0, temperature.str() + ": it must not be negative");
  require(!c.prompt || !c.prompt->empty(),
          "--prompt: it must have a character; without the option a new line is continued");
  if (c.top_k)
    require(*c.top_k > 0, "--top-k " + std::to_string(*c.top_k) + ": it must be positive");
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
