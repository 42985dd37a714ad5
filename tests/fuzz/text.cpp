// Text files: UTF-8, vocabulary, tokens. What is read is the text that was there.
#include "fuzz.h"

#include "../../tools/program/train/corpus.h"

#include <cstdlib>

using namespace tapehead;

namespace {

std::string decoded(const program::Corpus& corpus) {
  std::vector<std::int64_t> tokens(corpus.train.begin(), corpus.train.end());
  tokens.insert(tokens.end(), corpus.held_out.begin(), corpus.held_out.end());
  return corpus.vocabulary.decode(tokens);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = tests::as_text(data, size);
  tests::write_file("file", input);
  try {
    const program::Corpus corpus = program::read_corpus({tests::fuzz_folder().file("file")});
    const std::string_view mark = "\xef\xbb\xbf";
    if (decoded(corpus) != (input.starts_with(mark) ? input.substr(mark.size()) : input))
      std::abort();
  } catch (const Error&) {
  }
  return 0;
}
