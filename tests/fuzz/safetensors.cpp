// Safetensors files. An input that begins with { is a header, a zero byte and the data; any other
// is the whole file.
#include "framed.h"
#include "fuzz.h"

#include <tapehead/nn/safetensors.h>

using namespace tapehead;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tests::bound_resources();
  std::string_view input = tests::as_text(data, size);
  if (input.starts_with('{')) {
    const std::string_view header = tests::take_part(input);
    tests::write_file("file", tests::framed(header, input));
  } else {
    tests::write_file("file", input);
  }
  try {
    (void)nn::load_safetensors(tests::fuzz_folder().file("file"));
  } catch (const Error&) {
  }
  return 0;
}
