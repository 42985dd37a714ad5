// Model files of `tapehead plan`, read and, where the model is a small one, planned.
#include "fuzz.h"

#include "../../tools/program/plan/models.h"
#include "../../tools/program/plan/plan.h"

using namespace tapehead;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t most_layers = 2;  // a plan takes time for each
  try {
    const program::TrainingSetup setup{
        .model = program::model_from_json(tests::as_text(data, size), "file")};
    program::check(setup);
    if (setup.model.layers <= most_layers) (void)program::costs_of(program::training_step(setup));
  } catch (const Error&) {
  }
  return 0;
}
