// The loss of a language model on held-out text.
#pragma once

#include <tapehead/nn/gpt.h>

#include <cstdint>
#include <limits>
#include <span>

#include "corpus.h"

namespace tapehead::program {

/// Mean of -log p over all characters of `text` but the first, in nats: the same events that
/// Bigram::loss counts. The text is cut into windows of the model's context, each character is
/// predicted once, from what stands before it in its window. With more windows than `max_windows`,
/// so many of them are taken, evenly spread. The text has at least two characters.
double held_out_loss(const nn::Gpt& model, std::span<const Token> text, std::int64_t batch,
                     std::int64_t max_windows = std::numeric_limits<std::int64_t>::max());

}  // namespace tapehead::program
