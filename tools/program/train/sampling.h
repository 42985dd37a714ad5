// Text from a language model.
#pragma once

#include <tapehead/nn/gpt.h>

#include <optional>
#include <string>

#include "corpus.h"

namespace tapehead::program {

/// `prompt` continued by `count` characters. Without a prompt the text begins after a new line, or
/// after the vocabulary's first character where it has none. ValueError: an empty prompt, one that
/// is not UTF-8 or has characters that the model does not know, a negative count, bad options.
std::string sample_text(const nn::Gpt& model, const Vocabulary& vocabulary,
                        const std::optional<std::string>& prompt, std::int64_t count,
                        const nn::SampleOptions& options, Generator& generator);

}  // namespace tapehead::program
