// The random stream: Philox 4x32-10, by its published known answers, and what a Generator hands
// out.
#include "support/checks.h"

#include <tapehead/core/random.h>

#include <doctest/doctest.h>

#include <thread>

using namespace tapehead;

using Words = std::array<std::uint32_t, 4>;

TEST_CASE("philox gives the known answers") {
  // The first is that of Random123's kat_vectors; the other two come from a second implementation
  // that gives all three of kat_vectors, whose counters are longer than ours.
  CHECK(philox(0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88) ==
        Words{0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c});
  CHECK(philox(~0ull, ~0ull) == Words{0x4d18d7d2, 0x430ac65a, 0xbd2fa22a, 0x0afae10d});
}

TEST_CASE("the n-th word of a stream does not depend on where one starts") {
  for (std::uint64_t n = 0; n < 12; ++n) CHECK(random_bits(7, n) == philox(7, n / 4)[n % 4]);
}

TEST_CASE("a generator hands out stretches that do not overlap, and replays from its state") {
  Generator generator(5);
  const RandomState first = generator.take(6), second = generator.take(1),
                    third = generator.take(4);
  CHECK(first == RandomState{5, 0});
  CHECK(second == RandomState{5, 8});  // whole blocks of four
  CHECK(third == RandomState{5, 12});
  generator.set_state(second);
  CHECK(generator.take(1) == second);
  CHECK(generator.take(0) == third);
  CHECK(generator.state() == third);
  tests::check_throws(ErrorKind::value, {"Generator::set_state", "offset 6", "multiple of 4"}, [&] {
    generator.set_state({5, 6});
  });
  CHECK(generator.state() == third);
}

TEST_CASE("the default generator is one a thread, with seed 0 until manual_seed") {
  std::thread([] { CHECK(default_generator().take(4) == RandomState{0, 0}); }).join();
  manual_seed(3);
  CHECK(default_generator().take(4) == RandomState{3, 0});
  std::thread([] { CHECK(default_generator().state() == RandomState{0, 0}); }).join();
  manual_seed(0);
}
