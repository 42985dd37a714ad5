// Schedules of learning rates.
#include <tapehead/nn/schedule.h>

#include <doctest/doctest.h>

using tapehead::nn::CosineSchedule;

TEST_CASE(
    "the cosine schedule warms up, peaks, passes the middle half way, and stays at the floor") {
  const CosineSchedule lr{.peak = 1, .floor = 0.1, .warmup = 10, .total = 110};
  CHECK(lr(0) == doctest::Approx(0.1));
  CHECK(lr(4) == doctest::Approx(0.5));
  CHECK(lr(9) == doctest::Approx(1));
  CHECK(lr(10) == doctest::Approx(1));
  CHECK(lr(35) == doctest::Approx(0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2));
  CHECK(lr(60) == doctest::Approx(0.55));
  CHECK(lr(110) == doctest::Approx(0.1));
  CHECK(lr(1000) == doctest::Approx(0.1));
}

TEST_CASE("a schedule without warm-up starts at its peak, and one of no steps is at its floor") {
  CHECK(CosineSchedule{.peak = 2, .total = 5}(0) == 2);
  CHECK(CosineSchedule{.peak = 2, .floor = 0.5}(0) == 0.5);
}
