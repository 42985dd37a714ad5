// Case files, read and run: any operation, with any arguments.
#include "fuzz.h"

#include "../../tools/program/cases/format.h"
#include "../../tools/program/cases/runner.h"

using namespace tapehead;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tests::bound_resources();
  try {
    for (const program::Case& c : program::parse_case_file(tests::as_text(data, size), "file"))
      (void)program::run_case(c, "file");
  } catch (const program::CaseFormatError&) {
  }
  return 0;
}
