// Trainings that are killed at random moments, again and again.
#include "support/program_process.h"

#include <tapehead/core/random.h>

#include "../tools/program/train/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

using namespace tapehead;
using tests::Process;
using tests::WorkFolder;

namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr int steps_a_session = 15;

// The k-th part of a run: it starts it, or makes it longer. It saves at its end, and the first one
// after two steps, too.
Process session(const WorkFolder& folder, const std::string& out, int k) {
  const bool begun = program::has_run(out);
  tests::Arguments arguments = begun ? tests::resume(out) : tests::train(folder / "text.txt", out);
  arguments.insert(arguments.end(), {"--steps", std::to_string((k + 1) * steps_a_session)});
  return Process(folder, arguments);
}

bool was_saving(const fs::path& out) {
  return fs::exists(out) &&
         std::any_of(fs::directory_iterator(out), {}, [](const fs::directory_entry& entry) {
           return entry.path().filename().string().find(".tmp-") != std::string::npos;
         });
}

// What a save left is whole, and has all steps of the sessions before.
void check_saved(const std::string& out, int sessions, std::int64_t& saved) {
  if (!program::has_run(out)) {
    CHECK(saved == 0);
    return;
  }
  const program::RunState state = program::load_run(out).state;
  CHECK(state.step >= std::max<std::int64_t>(saved, sessions * steps_a_session));
  saved = state.step;
  if (fs::exists(out + "/model.safetensors")) CHECK(program::load_model(out).vocabulary.size() > 0);
  if (fs::exists(out + "/losses.csv")) CHECK(std::ssize(tests::losses(out)) <= saved);
}

}  // namespace

TEST_CASE("two hundred killed trainings lose unsaved steps and nothing else") {
  constexpr int kills_wanted = 200;
  const WorkFolder folder;
  folder.write("text.txt", tests::sample_text());
  const std::string out = folder / "killed", whole = folder / "whole";

  const auto started = std::chrono::steady_clock::now();
  REQUIRE(session(folder, whole, 0).wait() == 0);
  const Seconds usual = std::chrono::steady_clock::now() - started;

  int kills = 0, kills_while_saving = 0, sessions = 0;
  std::int64_t saved = 0;
  for (std::uint64_t n = 0; kills < kills_wanted; ++n) {
    Process process = session(folder, out, sessions);
    std::this_thread::sleep_for(1.3 * usual * random_bits(1, n) * 0x1p-32);
    process.send(SIGKILL);
    const int end = process.wait();
    INFO(process.err());
    REQUIRE((end == 0 || end == -SIGKILL));
    if (end == 0) {
      ++sessions;
      continue;
    }
    ++kills;
    kills_while_saving += was_saving(out);
    check_saved(out, sessions, saved);
  }
  REQUIRE(session(folder, out, sessions).wait() == 0);

  // The same sessions, undisturbed.
  for (int k = 1; k <= sessions; ++k) REQUIRE(session(folder, whole, k).wait() == 0);
  CHECK(tests::losses(out) == tests::losses(whole));
  CHECK(tests::content(out + "/model.safetensors") == tests::content(whole + "/model.safetensors"));
  MESSAGE(kills, " kills, ", kills_while_saving, " of them in the middle of a file, in a run of ",
          sessions + 1, " sessions");
}
