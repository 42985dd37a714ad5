#include "evaluate.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/views.h>

#include <algorithm>

namespace tapehead::program {
namespace {

double summed_loss(const nn::Gpt& model, const Batch& batch) {
  return next_character_loss(model, batch, Reduction::sum).item();
}

// The starts of `count` of the `all` windows that stand side by side, evenly spread.
std::vector<std::int64_t> spread_starts(std::int64_t all, std::int64_t count, std::int64_t length) {
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < count; ++i) starts.push_back(i * all / count * length);
  return starts;
}

}  // namespace

Tensor next_character_loss(const nn::Gpt& model, const Batch& batch, Reduction reduction) {
  const Tensor logits = model(batch.inputs);
  const Tensor rows = reshape(logits, {-1, model.options().vocab_size});
  return cross_entropy(rows, reshape(batch.targets, {-1}), {.reduction = reduction});
}

Gradients loss_gradients(const nn::Gpt& model, const Batch& batch) {
  Tape tape;
  const Tensor loss = next_character_loss(model, batch);
  return tape.gradient(loss, model.parameters());
}

double held_out_loss(const nn::Gpt& model, std::span<const Token> text, std::int64_t batch,
                     std::int64_t max_windows, nn::ProcessGroup* group) {
  const Tape::Pause pause;
  const std::int64_t length = model.options().context;
  const std::int64_t events = static_cast<std::int64_t>(text.size()) - 1;
  const std::int64_t all = events / length, taken = std::min(all, max_windows);
  const std::vector<std::int64_t> starts = spread_starts(all, taken, length);
  double sum = 0;
  std::int64_t counted = 0;
  const std::int64_t rank = group ? group->rank() : 0, ranks = group ? group->size() : 1;
  for (std::int64_t i = rank * batch; i < taken; i += ranks * batch) {
    const auto part = std::span(starts).subspan(
        static_cast<std::size_t>(i), static_cast<std::size_t>(std::min(batch, taken - i)));
    sum += summed_loss(model, windows(text, part, length));
    counted += static_cast<std::int64_t>(part.size()) * length;
  }
  const std::int64_t rest = events % length;
  if (taken == all && rest > 0 && rank == 0) {
    const std::int64_t last[] = {all * length};
    sum += summed_loss(model, windows(text, last, rest));
    counted += rest;
  }
  std::vector<double> sums{sum, static_cast<double>(counted)};
  if (group) sums = nn::summed(*group, sums);
  return sums[0] / sums[1];
}

}  // namespace tapehead::program
