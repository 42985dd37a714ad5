#include <iostream>

#include "checkpoint.h"
#include "commands.h"
#include "sampling.h"

namespace tapehead::program {

int run_sample(const SampleCommand& command) {
  const nn::SampleOptions how{.temperature = command.temperature, .top_k = command.top_k};
  nn::check(how);
  const StoredModel stored = load_model(command.model);
  Generator generator(command.seed);
  std::cout << sample_text(stored.model, stored.vocabulary, command.prompt, command.tokens, how,
                           generator)
            << "\n";
  return done;
}

}  // namespace tapehead::program
