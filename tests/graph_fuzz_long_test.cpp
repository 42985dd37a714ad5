#include "support/graph_fuzz.h"

#include <doctest/doctest.h>

#include <string>

using namespace tapehead::tests;

TEST_CASE("a million mutated graph files end in an error or in reports, never in a crash") {
  std::string last;
  try {
    const FuzzCounts counts = fuzz_graph_files(2, 1'000'000, last);
    CHECK(counts.refused + counts.accepted == 1'000'000);
    CHECK(counts.accepted > 100'000);
    CHECK(counts.refused > 100'000);
  } catch (const std::exception& error) {
    FAIL(error.what() << " from this file:\n" << last);
  }
}
