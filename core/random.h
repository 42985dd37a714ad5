// Random numbers from a counter (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): the n-th number of a key is a pure function of the two, so streams do not
// depend on threads, and a recorded (key, offset) replays exactly.
#pragma once

#include <array>
#include <cstdint>

namespace tapehead {

/// Four 32-bit words: the `counter`-th block of the stream `key`.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter);

/// The n-th 32-bit word of the stream `key`.
inline std::uint32_t random_bits(std::uint64_t key, std::uint64_t n) {
  return philox(key, n / 4)[n % 4];
}

/// A position in a stream: where a random operation starts to draw.
struct RandomState {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;  ///< in 32-bit words
  bool operator==(const RandomState&) const = default;
};

/// Hands out stretches of one stream. A value: copy it to replay. Not for two threads at once.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : state_{seed, 0} {}

  /// Takes the next `words` 32-bit words: returns where they start and moves past them. Every
  /// random operation calls it exactly once, before it looks at data, so that a dry run moves the
  /// stream as the real run does.
  RandomState take(std::uint64_t words) {
    const RandomState start = state_;
    state_.offset += (words + 3) / 4 * 4;
    return start;
  }

  RandomState state() const { return state_; }
  void set_state(RandomState state) { state_ = state; }

 private:
  RandomState state_;
};

/// The generator that random operations use when none is given: one a thread, seed 0 at first.
Generator& default_generator();

/// Restarts this thread's default generator.
void manual_seed(std::uint64_t seed);

}  // namespace tapehead
