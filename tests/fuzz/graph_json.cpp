// Graph files, read and put through every report. graph_fuzz_test does the same to mutations that a
// generator of ours makes of valid dumps, without a special compiler; here libFuzzer sees which
// lines an input reaches and goes where no test was.
#include "fuzz.h"

#include "../support/graph_fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tapehead::tests::read_and_report(std::string(tapehead::tests::as_text(data, size)));
  return 0;
}
