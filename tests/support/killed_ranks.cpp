#include "killed_ranks.h"
#include "../../tools/program/train/checkpoint.h"
#include "mpirun.h"
#include "program_process.h"

#include <tapehead/core/random.h>

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>

namespace tapehead::tests {
namespace {

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

double modified(const std::filesystem::path& file) {
  struct stat status = {};
  REQUIRE(stat(file.c_str(), &status) == 0);
  return static_cast<double>(status.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

void check_words(const std::string& err, int killed) {
  const std::string line =
      "tapehead: train: rank " + std::to_string(killed) +
      " has ended, and the run with it; --resume goes on from the last save, if "
      "there is one\n";
  const std::size_t at = err.find("tapehead: ");
  CHECK(at != std::string::npos);
  CHECK(err.substr(at, line.size()) == line);
  CHECK(err.find("tapehead: ", at + 1) == std::string::npos);
}

// The ranks are mpirun's children, in their order.
void kill_one(const WorkFolder& folder, int ranks, int victim, double seconds) {
  CAPTURE(victim);
  CAPTURE(seconds);
  const std::string options =  // a milestone every second or so, and no end before the kill
      "train --text text.txt --layers 1 --heads 2 --dim 16 --context 16 --batch 2 --threads 1 "
      "--steps 4000000 --out run";
  const std::string kill = "set -- $(cat /proc/$m/task/*/children); shift " +
                           std::to_string(victim) + "; date +%s.%N > killed.txt; kill -KILL $1";
  CHECK(mpirun(folder, ranks, options,
               wait_for("run/graph.json") + "; sleep " + std::to_string(seconds) + "; " + kill) !=
        0);
  const double killed = std::stod(content(folder / "killed.txt"));
  CHECK(now() - killed < 60);  // two seconds as a rule, and never where a rank hangs
  // A run saves every ten seconds; ten more are for a busy machine. Where waits are longer than
  // both, a run that does not save exceeds them.
  CHECK(killed - modified(folder.file("run/checkpoint.safetensors")) < 20);
  const std::string err = content(folder / "err.txt");
  INFO(err);
  check_words(err, victim);
  CHECK(program::load_model(folder.file("run")).vocabulary.size() > 0);
  const std::int64_t step = program::load_run(folder.file("run")).state.step;
  CHECK(step >= 2);
  const std::string more = "train --resume --out run --steps " + std::to_string(step + 3);
  CHECK(mpirun(folder, ranks, more) == 0);
}

}  // namespace

void write_text(const Folder& folder) {
  std::ofstream text(folder.file("text.txt"));
  for (int i = 0; i < 300; ++i) text << "the tape records, " << i % 7 << " times\n";
}

std::string wait_for(const std::string& file) {
  return "for i in $(seq 3000); do test -e " + file + " && break; sleep 0.01; done";
}

void kill_ranks(int times, double longest_wait, std::uint64_t seed) {
  for (int i = 0; i < times; ++i) {
    const WorkFolder folder;
    write_text(folder);
    const auto draw = philox(seed, static_cast<std::uint64_t>(i));
    const int ranks = 2 + static_cast<int>(draw[0] % 2);
    kill_one(folder, ranks, static_cast<int>(draw[1] % static_cast<unsigned>(ranks)),
             longest_wait * draw[2] * 0x1p-32);
  }
}

}  // namespace tapehead::tests
