// Saving when the disk is full, wherever in the file that happens: an error, and the old file.
#include "support/checks.h"
#include "support/file_size_limit.h"
#include "support/program_process.h"

#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/create.h>

#include "../tools/program/train/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace tapehead;
using tests::FileSizeLimit;
using tests::Folder;

TEST_CASE("a file that the disk has no room for is an error that names it; the old one stays") {
  const Folder folder;
  const nn::StateDict old = {{"w", arange(0, 100)}}, larger = {{"w", arange(0, 2000)}};
  nn::save_safetensors(folder.file(), old);
  const std::string before = tests::content(folder.file().string());
  for (const std::size_t room : {0u, 1u, 8u, 20u, 200u, 4096u, 8000u}) {
    CAPTURE(room);
    {
      const FileSizeLimit limit(room);
      tests::check_throws(ErrorKind::io,
                          {"save_safetensors", folder.file().string(), "File too large"},
                          [&] { nn::save_safetensors(folder.file(), larger); });
    }
    CHECK(tests::content(folder.file().string()) == before);
    CHECK(folder.size() == 1);
  }
  nn::save_safetensors(folder.file(), larger);
  CHECK(tests::content(folder.file().string()) != before);
}

TEST_CASE("a training that cannot save ends with one line, and goes on from its last save") {
  const tests::WorkFolder folder;
  const std::string text = folder.write("text.txt", tests::sample_text()), out = folder / "run";
  const auto steps = [&](tests::Arguments arguments, const char* count) {
    arguments.insert(arguments.end(), {"--steps", count});
    return tests::run(folder, arguments);
  };
  REQUIRE(steps(tests::train(text, out), "4").exit_code == 0);
  const std::string checkpoint = tests::content(out + "/checkpoint.safetensors");
  {
    const FileSizeLimit limit(checkpoint.size() / 2);  // which the process inherits
    const tests::Finished stopped = steps(tests::resume(out), "10");
    CHECK(stopped.exit_code == 2);
    CHECK(std::count(stopped.err.begin(), stopped.err.end(), '\n') == 1);
    CHECK(
        tests::contains(stopped.err, "checkpoint.safetensors: cannot be written: File too large"));
  }
  CHECK(tests::content(out + "/checkpoint.safetensors") == checkpoint);
  CHECK(program::load_run(out).state.step == 4);
  CHECK(steps(tests::resume(out), "10").exit_code == 0);
  CHECK(program::load_run(out).state.step == 10);
}
