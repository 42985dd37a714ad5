// Training on several ranks: the program under mpirun, and its parts on ranks that are threads.
#include "../tools/program/train/ranks.h"
#include "../tools/program/train/trainer.h"
#include "support/checks.h"
#include "support/killed_ranks.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "support/program_process.h"
#include "support/thread_group.h"

#include <tapehead/ops/write.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

using namespace tapehead;
using namespace tapehead::program;
using tests::contains;
using Folder = tests::WorkFolder;
using tests::content;
using tests::losses;
using tests::mpirun;
using tests::on_ranks;
using tests::ThreadGroup;

namespace {

const std::string sizes = "train --text text.txt --layers 1 --heads 2 --dim 16 --context 16 ";

// After "step,".
std::vector<double> numbers(const std::vector<std::string>& losses) {
  std::vector<double> all;
  for (const std::string& line : losses) all.push_back(std::stod(line.substr(line.find(',') + 1)));
  return all;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / b[i]);
  return largest;
}

std::int64_t lines_of_ours(const std::string& text) {
  std::istringstream lines(text);
  std::int64_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("tapehead: ");
  return count;
}

}  // namespace

// ---- under mpirun -------------------------------------------------------------------------------

TEST_CASE("two ranks with a batch each have the losses of one process with both batches") {
  if (!tests::has_mpirun()) return;
  const Folder folder;
  tests::write_text(folder);
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f64", 1e-12}}) {
    const std::string options = sizes + "--steps 50 --threads 1 --dtype " + dtype;
    REQUIRE(tests::run_program(options + " --batch 8 --out one > out.txt",
                               folder.file("").string()) == 0);
    REQUIRE(mpirun(folder, 2, options + " --batch 4 --out two") == 0);
    CHECK(losses(folder / "one").size() == 50);
    CHECK(largest_difference(numbers(losses(folder / "two")), numbers(losses(folder / "one"))) <
          tolerance);
  }
  const std::string out = content(folder / "out.txt");
  CHECK(contains(out, "ranks   2, each with a batch of its own: 8 sequences a step"));
  CHECK(contains(out, "ms a step for each other's"));
  CHECK(std::count(out.begin(), out.end(), '\r') <= std::count(out.begin(), out.end(), '\n'));
  CHECK(content(folder / "err.txt").empty());
}

TEST_CASE("ranks that were stopped go on bit for bit, as many as there were") {
  if (!tests::has_mpirun()) return;
  const Folder folder;
  tests::write_text(folder);
  const std::string options = sizes + "--batch 2 --threads 1 --dropout 0.2 --steps 3000 --out ";
  REQUIRE(mpirun(folder, 2, options + "whole") == 0);
  // To one of them, for mpirun gives all a second before it kills them.
  const std::string interrupt = "set -- $(cat /proc/$m/task/*/children); kill -INT $2";
  REQUIRE(mpirun(folder, 2, options + "stopped",
                 tests::wait_for("stopped/graph.json") + "; " + interrupt) == 0);
  const std::string out = content(folder / "out.txt");
  INFO(out, content(folder / "err.txt"));
  REQUIRE(contains(out, "interrupted: saved after step "));
  CHECK(contains(out, "  mpirun -n 2 "));
  CHECK(losses(folder / "stopped").size() < 3000);
  CHECK(tests::run_program("train --resume --out stopped 2> err.txt", folder.file("").string()) ==
        2);
  CHECK(
      contains(content(folder / "err.txt"), "was started with mpirun -n 2, and here is 1 process"));
  REQUIRE(mpirun(folder, 2, "train --resume --threads 1 --out stopped") == 0);
  CHECK(losses(folder / "stopped") == losses(folder / "whole"));
}

TEST_CASE("what is wrong is said in one line, whoever finds it") {
  if (!tests::has_mpirun()) return;
  const Folder folder;
  tests::write_text(folder);
  const auto refused = [&](const std::string& arguments, const std::string& what) {
    CHECK(mpirun(folder, 3, arguments) == 2);
    const std::string err = content(folder / "err.txt");
    INFO(err);
    CHECK(contains(err, what));
    CHECK(lines_of_ours(err) == 1);
  };
  refused("train --bogus", "tapehead: The following argument was not expected: --bogus");
  refused("train --text nowhere.txt", "tapehead: text: nowhere.txt: cannot be read");
  refused("train --dim 7", "tapehead: train: --dim 7: it must be a multiple of --heads 4");
  refused(sizes + "--lr 1e300 --steps 5 --threads 1 --out wild", "the loss is not finite");
}

TEST_CASE("a run that does not begin leaves the earlier one in the folder alone") {
  if (!tests::has_mpirun()) return;
  const Folder folder;
  tests::write_text(folder);
  const std::string options = sizes + "--steps 12 --threads 1 --out run --batch ";
  REQUIRE(mpirun(folder, 1, options + "2") == 0);
  const std::string before = content(folder / "run/checkpoint.safetensors");
  const std::string other = " : -n 1 '" TAPEHEAD_PROGRAM "' " + options;
  CHECK(mpirun(folder, 1, options + "2" + other + "3") == 2);
  const std::string err = content(folder / "err.txt");
  CHECK_MESSAGE(contains(err, "rank 1 has \"--batch 3\" where rank 0 has \"--batch 2\""), err);
  CHECK(content(folder / "run/checkpoint.safetensors") == before);
  CHECK_FALSE(std::filesystem::exists(folder.file("run/previous")));
}

TEST_CASE("a killed rank ends the others, with a line, and leaves a whole checkpoint") {
  if (!tests::has_mpirun()) return;
  tests::kill_ranks(2, 1, 1);
}

// ---- on threads ---------------------------------------------------------------------------------

TEST_CASE("the batches of the ranks are the parts of one that is as large as all") {
  std::vector<Token> text;
  for (Token i = 0; i < 500; ++i) text.push_back(i);
  for (const std::int64_t step : {0, 1, 7}) {
    std::vector<double> parts;
    for (const std::int64_t rank : {0, 1, 2})
      for (const double token : RandomBatches(text, 4, 8, 5, {rank, 3}).at(step).inputs.to_vector())
        parts.push_back(token);
    CHECK(parts == RandomBatches(text, 12, 8, 5).at(step).inputs.to_vector());
  }
}

TEST_CASE("ranks drop other elements, and begin with the same weights") {
  Corpus corpus;  // has one window, so every batch is the same
  corpus.vocabulary = Vocabulary(std::vector<char32_t>{'a', 'b', 'c'});
  corpus.train = {0, 1, 2, 0, 1, 2, 2, 1, 0};
  corpus.held_out = {0, 1, 2};
  const auto first_loss = [&](double dropout, int ranks) {
    std::vector<double> all(static_cast<std::size_t>(ranks));
    const std::vector<std::string> thrown = on_ranks(ranks, [&](ThreadGroup& group) {
      TrainOptions options{.layers = 1, .heads = 1, .dim = 8, .context = 8, .batch = 1};
      options.dtype = "f64";
      options.dropout = dropout;
      Trainer trainer({.options = options, .characters = "abc", .ranks = ranks}, corpus);
      trainer.join(group);
      trainer.step();
      all[static_cast<std::size_t>(group.rank())] = trainer.state().losses[0];
    });
    CHECK(thrown == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    CHECK(all.back() == all[0]);
    return all[0];
  };
  CHECK(first_loss(0, 2) == first_loss(0, 1));
  CHECK(first_loss(0.5, 2) != first_loss(0.5, 1));
}

TEST_CASE("what one rank throws by itself all throw, with its rank") {
  std::vector<std::string> thrown = on_ranks(3, [](ThreadGroup& group) {
    together(group, [&] {
      if (group.rank() == 1) throw ValueError("test", "on purpose");
    });
  });
  CHECK(thrown == std::vector<std::string>(3, "rank 1: test: on purpose"));
  thrown = on_ranks(3, [](ThreadGroup& group) {
    together(group, [&] { throw ValueError("test", "on purpose"); });
  });
  CHECK(thrown == std::vector<std::string>(3, "test: on purpose"));
  CHECK(on_ranks(3, [](ThreadGroup& g) { together(g, [] {}); }) == std::vector<std::string>(3));
}

namespace {

// One window of text, so every batch is the same.
struct Tiny {
  Corpus corpus;
  Tiny() {
    corpus.vocabulary = Vocabulary(std::vector<char32_t>{'a', 'b'});
    corpus.train = {0, 1, 0, 1, 0, 1, 0, 1, 0};
    corpus.held_out = {0, 1};
  }
  Trainer trainer(std::int64_t step = 0) const {
    const TrainOptions options{.layers = 1, .heads = 1, .dim = 8, .context = 8, .batch = 1};
    return {{.options = options, .characters = "ab", .ranks = 2, .step = step}, corpus};
  }
};

}  // namespace

TEST_CASE("ranks that are not at the same step of the same run do not begin") {
  const Tiny tiny;
  const std::vector<std::string> thrown = on_ranks(2, [&](ThreadGroup& group) {
    Trainer trainer = tiny.trainer(group.rank());
    trainer.join(group);
  });
  CHECK(thrown == std::vector<std::string>(
                      2,
                      "train: the ranks do not agree: rank 1 has \"step 1\" where rank 0 has "
                      "\"step 0\""));
}

TEST_CASE("ranks begin with the optimizer's state of rank 0") {
  const Tiny tiny;
  std::vector<std::vector<double>> moments(2);
  const std::vector<std::string> thrown = on_ranks(2, [&](ThreadGroup& group) {
    Trainer trainer = tiny.trainer();
    trainer.step();
    for (const nn::NamedTensor& entry : trainer.optimizer().state())
      if (entry.tensor.rank() > 0 && group.rank() == 1) fill_(entry.tensor, 0.5);
    trainer.join(group);
    trainer.step();
    for (const nn::NamedTensor& entry : trainer.optimizer().state())
      for (const double value : entry.tensor.to_vector())
        moments[static_cast<std::size_t>(group.rank())].push_back(value);
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK(moments[0].size() > 100);
  CHECK(moments[0] == moments[1]);
}
