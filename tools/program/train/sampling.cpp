#include "sampling.h"

#include "../utf8.h"

namespace tapehead::program {
namespace {

std::vector<std::int64_t> first_tokens(const Vocabulary& vocabulary,
                                       const std::optional<std::string>& prompt) {
  if (!prompt) return {vocabulary.find(U'\n').value_or(0)};
  const std::vector<Token> tokens = vocabulary.encode(decode_utf8(*prompt, "--prompt"), "--prompt");
  return {tokens.begin(), tokens.end()};
}

}  // namespace

std::string sample_text(const nn::Gpt& model, const Vocabulary& vocabulary,
                        const std::optional<std::string>& prompt, std::int64_t count,
                        const nn::SampleOptions& options, Generator& generator) {
  std::vector<std::int64_t> tokens = first_tokens(vocabulary, prompt);
  tokens = model.generate(std::move(tokens), count, options, generator);
  const std::span<const std::int64_t> all = tokens;
  return vocabulary.decode(prompt ? all : all.subspan(1));
}

}  // namespace tapehead::program
