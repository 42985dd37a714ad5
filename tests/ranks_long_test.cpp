// Ranks that are killed at random, again and again.
#include "support/killed_ranks.h"
#include "support/mpirun.h"

using namespace tapehead;

TEST_CASE("twenty killed ranks: never a hang, always a line and a whole checkpoint") {
  if (!tests::has_mpirun()) return;
  tests::kill_ranks(20, 30, 2);  // a run saves every ten seconds
}
