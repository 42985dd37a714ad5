#include "memory_need.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/error.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/text.h>

#include <sys/sysinfo.h>

#include <algorithm>
#include <limits>

#include "evaluate.h"
#include "trainer.h"

namespace tapehead::program {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

// The peak of a step of a model with so many layers.
std::int64_t planned_peak(TrainOptions options, std::int64_t layers, std::int64_t vocabulary_size) {
  const DryRun dry;
  options.layers = layers;
  const nn::Gpt model = make_model(options, vocabulary_size);
  nn::AdamW optimizer(model, {.lr = options.lr});
  const auto tokens = [&] { return empty("batch", {options.batch, options.context}, DType::i64); };
  const Tensor inputs = tokens(), targets = tokens();
  optimizer.step(loss_gradients(model, {inputs, targets}));
  return memory_stats().peak;
}

std::int64_t machine_bytes() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return most;
  return static_cast<std::int64_t>((info.totalram + info.totalswap) * info.mem_unit);
}

[[noreturn]] void refuse(const TrainOptions& o, const std::string& why) {
  throw ValueError("train", "--layers " + std::to_string(o.layers) + " --dim " +
                                std::to_string(o.dim) + " --context " + std::to_string(o.context) +
                                " --batch " + std::to_string(o.batch) + ": " + why);
}

}  // namespace

// Each layer after the second adds at least what the second one added. A dry run of all of them
// would take as long as there are layers.
std::int64_t least_training_bytes(const TrainOptions& options, std::int64_t vocabulary_size) try {
  const std::int64_t one = planned_peak(options, 1, vocabulary_size);
  if (options.layers == 1) return one;
  const std::int64_t each = planned_peak(options, 2, vocabulary_size) - one;
  const std::int64_t more = options.layers - 1;
  return each > 0 && more > (most - one) / each ? most : one + more * each;
} catch (const Error&) {  // sizes were checked: only their product can be wrong
  refuse(options, "a tensor of such a model has more bytes than 63 bits can count");
}

void check_memory(const TrainOptions& options, std::int64_t vocabulary_size) {
  const std::int64_t needed = least_training_bytes(options, vocabulary_size);
  const std::int64_t available = machine_bytes();
  if (needed > available)
    refuse(options, "a step needs at least " + graph::format_bytes(needed) +
                        ", and this machine has " + graph::format_bytes(available));
}

}  // namespace tapehead::program
