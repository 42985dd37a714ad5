// What train --resume and sample read. An input is a description, a zero byte, the entries of the
// header, a zero byte, and the data; a description that begins with a space is that of a model.
#include "framed.h"
#include "fuzz.h"

#include "../../tools/program/train/checkpoint.h"
#include "../../tools/program/train/trainer.h"

using namespace tapehead;

namespace {

const program::Corpus& corpus() {
  static const program::Corpus read = [] {
    tests::write_file("text", "abababababababababababababababab");
    return program::read_corpus({tests::fuzz_folder().file("text")});
  }();
  return read;
}

void resume(const std::filesystem::path& folder) {
  const program::StoredRun run = program::load_run(folder);
  program::Trainer trainer(run.state, corpus());
  program::restore(run, folder, trainer);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tests::bound_resources();
  std::string_view rest = tests::as_text(data, size);
  const std::string_view description = tests::take_part(rest), header = tests::take_part(rest);
  const bool is_model = description.starts_with(' ');
  const std::string whole =
      tests::with_metadata(header, is_model ? "tapehead-model/1" : "tapehead-run/1", description);
  tests::write_file(is_model ? "model.safetensors" : "checkpoint.safetensors",
                    tests::framed(whole, rest));
  const std::filesystem::path folder = tests::fuzz_folder().file("");
  try {
    if (is_model) (void)program::load_model(folder);
    else resume(folder);
  } catch (const Error&) {
  }
  return 0;
}
