// Random numbers from a counter (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): the n-th number of a key is a pure function of the two, so streams do not
// depend on threads, and a recorded (key, offset) replays exactly.
#pragma once

#include <tapehead/core/thread_scope.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tapehead {

/// Four 32-bit words: the `counter`-th block of the stream `key`.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter);

/// The n-th 32-bit word of the stream `key`.
inline std::uint32_t random_bits(std::uint64_t key, std::uint64_t n) {
  return philox(key, n / 4)[n % 4];
}

/// A position in a stream: where a random operation starts to draw.
struct RandomState {
  std::uint64_t key = 0;     ///< the stream
  std::uint64_t offset = 0;  ///< in 32-bit words
  bool operator==(const RandomState&) const = default;
};

class Generator;

namespace detail {

/// While it lives, every random operation on this thread draws through it.
class DrawScope : public ThreadScope<DrawScope> {
 public:
  virtual ~DrawScope() = default;

  /// The scope through which this thread draws, or null.
  static DrawScope* current() { return innermost(); }

  virtual RandomState take(Generator& generator, std::uint64_t words) = 0;

 protected:
  /// What would have been taken without this scope.
  RandomState take_outside(Generator& generator, std::uint64_t words) const;
};

}  // namespace detail

/// Hands out stretches of one stream. A value: copy it to replay. Not for two threads at once.
class Generator {
 public:
  /// At the start of the stream whose key is the seed.
  explicit Generator(std::uint64_t seed = 0) : state_{seed, 0} {}

  /// Takes the next `words` 32-bit words: returns where they start and moves past them. Every
  /// random operation calls it exactly once, before it looks at data, so that a dry run moves the
  /// stream as the real run does.
  RandomState take(std::uint64_t words) {
    detail::DrawScope* scope = detail::DrawScope::current();
    return scope ? scope->take(*this, words) : advance(words);
  }

  /// Where it stands.
  RandomState state() const { return state_; }
  /// Goes to a position, of whatever stream. ValueError unless its offset is a multiple of 4, as
  /// those of state() are.
  void set_state(RandomState state);

 private:
  friend class detail::DrawScope;

  RandomState advance(std::uint64_t words) {
    const RandomState start = state_;
    state_.offset += (words + 3) / 4 * 4;
    return start;
  }

  RandomState state_;
};

/// The generator that random operations use when none is given: one a thread, seed 0 at first.
Generator& default_generator();

/// Restarts this thread's default generator.
void manual_seed(std::uint64_t seed);

/// One call of Generator::take.
struct Draw {
  std::uint64_t words = 0;  ///< how many were taken
  RandomState start;        ///< where they start
};

/// While it lives, writes down what random operations on this thread draw, from whatever generator.
class RecordDraws final : detail::DrawScope {
 public:
  /// Appends to `draws`, which must outlive it.
  explicit RecordDraws(std::vector<Draw>& draws) : draws_(draws) {}

 private:
  RandomState take(Generator& generator, std::uint64_t words) override;

  std::vector<Draw>& draws_;
};

/// While it lives, random operations on this thread are given what was written down, in order; no
/// generator moves. StateError when they ask for more, or for something else.
class ReplayDraws final : detail::DrawScope {
 public:
  /// Reads `draws`, which must outlive it.
  explicit ReplayDraws(const std::vector<Draw>& draws) : draws_(draws) {}

  /// Whether everything was given out.
  bool at_end() const { return next_ == draws_.size(); }

 private:
  RandomState take(Generator& generator, std::uint64_t words) override;

  const std::vector<Draw>& draws_;
  std::size_t next_ = 0;
};

}  // namespace tapehead
