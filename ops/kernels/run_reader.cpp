#include <tapehead/ops/kernels/multiversion.h>
#include <tapehead/ops/kernels/run_reader.h>

namespace tapehead::kernels {
namespace {

// Copies elements that stand `stride` apart; an element is as large as a Word.
template <class Word>
TAPEHEAD_MULTIVERSION void gather_words(const void* from, std::int64_t stride, std::byte* to,
                                        std::int64_t count) {
  const Word* source = static_cast<const Word*>(from);
  Word* __restrict words = reinterpret_cast<Word*>(to);
  for (std::int64_t i = 0; i < count; ++i) words[i] = source[i * stride];
}

}  // namespace

void RunReader::fill(const void* from, std::int64_t count) {
  if (bytes_ == 8) gather_words<std::uint64_t>(from, stride_, buffer_, count);
  else if (bytes_ == 4) gather_words<std::uint32_t>(from, stride_, buffer_, count);
  else gather_words<std::uint8_t>(from, stride_, buffer_, count);
}

}  // namespace tapehead::kernels
