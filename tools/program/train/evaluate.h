// The loss of a language model: of a batch, with its gradients, and on held-out text.
#pragma once

#include <tapehead/core/gradients.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/process_group.h>
#include <tapehead/ops/loss.h>

#include <cstdint>
#include <limits>
#include <span>

#include "batches.h"
#include "corpus.h"

namespace tapehead::program {

/// -log p of each character that follows in the batch, in nats: their mean, or their sum.
Tensor next_character_loss(const nn::Gpt& model, const Batch& batch,
                           Reduction reduction = Reduction::mean);

/// The gradients of that mean by the model's parameters. The tape is gone when they are returned,
/// so that an optimizer's step finds nothing saved.
Gradients loss_gradients(const nn::Gpt& model, const Batch& batch);

/// Mean of -log p over all characters of `text` but the first, in nats: the same events that
/// Bigram::loss counts. The text is cut into windows of the model's context, each character is
/// predicted once, from what stands before it in its window. With more windows than `max_windows`,
/// so many of them are taken, evenly spread. The ranks of a group share the work. The text has at
/// least two characters. Put the model in evaluation mode first.
double held_out_loss(const nn::Gpt& model, std::span<const Token> text, std::int64_t batch,
                     std::int64_t max_windows = std::numeric_limits<std::int64_t>::max(),
                     nn::ProcessGroup* group = nullptr);

}  // namespace tapehead::program
