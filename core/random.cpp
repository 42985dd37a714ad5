#include <tapehead/core/error.h>
#include <tapehead/core/random.h>

namespace tapehead {

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9, weyl1 = 0xBB67AE85;
  std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(counter),
                                 static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * c[0], product1 = multiplier1 * c[2];
    c = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ k0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ k1,
         static_cast<std::uint32_t>(product0)};
    k0 += weyl0;
    k1 += weyl1;
  }
  return c;
}

void Generator::set_state(RandomState state) {
  if (state.offset % 4 != 0)
    throw ValueError("Generator::set_state",
                     "offset " + std::to_string(state.offset) + " is not a multiple of 4");
  state_ = state;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

// ---- writing down and replaying ----------------------------------------------------------------

namespace detail {

RandomState DrawScope::take_outside(Generator& generator, std::uint64_t words) const {
  return outer() ? outer()->take(generator, words) : generator.advance(words);
}

}  // namespace detail

RandomState RecordDraws::take(Generator& generator, std::uint64_t words) {
  draws_.push_back({words, take_outside(generator, words)});
  return draws_.back().start;
}

RandomState ReplayDraws::take(Generator&, std::uint64_t words) {
  if (at_end() || draws_[next_].words != words)
    throw StateError("replay", "a random operation draws " + std::to_string(words) +
                                   " words, and the first time it drew " +
                                   (at_end() ? "nothing" : std::to_string(draws_[next_].words)) +
                                   ": the computation is not the same");
  return draws_[next_++].start;
}

}  // namespace tapehead
