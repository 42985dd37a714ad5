#include "command.h"

#include <tapehead/core/parallel.h>
#include <tapehead/graph/text.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>
#include <string_view>

#include "../repository.h"
#include "bigram.h"
#include "checkpoint.h"
#include "ranks.h"
#include "run_folder.h"
#include "sampling.h"
#include "training_run.h"

namespace tapehead::program {
namespace {

namespace fs = std::filesystem;
using graph::format_count;

constexpr std::int64_t sample_length = 300;
constexpr double sample_temperature = 0.8;

std::string loss_text(double loss) { return graph::fixed(loss, 4); }

// ---- starting -----------------------------------------------------------------------------------

bool is_given(const TrainCommand& command, const std::string& name) {
  return std::find(command.given.begin(), command.given.end(), name) != command.given.end();
}

// What decides the losses of the steps that were done stays as it was. Files may have moved,
// threads and the length may change.
TrainOptions resumed_options(const TrainCommand& command, const TrainOptions& stored) {
  for (const std::string& name : command.given)
    if (name != "text" && name != "threads" && name != "steps")
      check_same_option(name, command.options, stored, "the run in " + command.folder);
  TrainOptions options = stored;
  if (is_given(command, "text")) options.text = command.options.text;
  if (is_given(command, "threads")) options.threads = command.options.threads;
  return options;
}

// --steps makes a run longer, or shorter, than it was to be.
void change_length(std::int64_t steps, RunState& state, const std::string& folder) {
  if (steps < state.step)
    throw ValueError("train", "--steps " + std::to_string(steps) + ": the run in " + folder +
                                  " has done " + std::to_string(state.step) +
                                  " steps; its length can be that or more");
  if (state.total != steps)
    std::cout << "note    the run is to have " << format_count(steps) << " steps"
              << (state.total ? ", not " + format_count(*state.total) : "")
              << "; from here on the learning rate is that of a run of this length\n";
  state.options.steps = state.total = steps;
}

Corpus read_text(const TrainOptions& options) {
  std::vector<fs::path> files(options.text.begin(), options.text.end());
  if (files.empty()) files = repository_files();
  Corpus corpus = read_corpus(files);
  std::cout << "text    " << format_count(static_cast<std::int64_t>(files.size()))
            << (files.size() == 1 ? " file, " : " files, ")
            << format_count(static_cast<std::int64_t>(corpus.train.size()))
            << " characters to learn from, "
            << format_count(static_cast<std::int64_t>(corpus.held_out.size())) << " held out, "
            << format_count(corpus.vocabulary.size()) << " different ones\n";
  return corpus;
}

void check_same_text(const Corpus& corpus, const RunState& state, const std::string& folder) {
  if (corpus.checksum != state.checksum)
    throw ValueError("train", "the text is not the one that the run in " + folder + " learns from");
}

void print_model(Trainer& trainer, const TrainOptions& options) {
  std::cout << "model   " << format_count(trainer.model().parameter_count())
            << " parameters: " << options.layers << " layers, " << options.heads << " heads, dim "
            << options.dim << ", context " << options.context << ", " << options.dtype << "; batch "
            << options.batch << std::endl;
  const std::int64_t ranks = trainer.group().size();
  if (ranks > 1)
    std::cout << "ranks   " << ranks
              << ", each with a batch of its own: " << format_count(ranks * options.batch)
              << " sequences a step; here " << num_threads()
              << (num_threads() == 1 ? " thread" : " threads") << " each" << std::endl;
}

double bigram_loss(const Corpus& corpus) {
  const double loss = Bigram(corpus.train, corpus.vocabulary.size()).loss(corpus.held_out);
  std::cout << "bigram  held-out loss " << loss_text(loss) << " nats a character: the mark to beat"
            << std::endl;
  return loss;
}

// ---- ending -------------------------------------------------------------------------------------

std::string verdict(double loss, double mark) {
  return loss_text(std::abs(mark - loss)) + (loss < mark ? " below" : " above") +
         " the bigram model's " + loss_text(mark);
}

void print_traffic(const nn::DataParallel::Traffic& traffic) {
  if (traffic.calls == 0) return;
  std::cout << "\ngradients of " << graph::format_bytes(traffic.bytes) << " a step, in "
            << traffic.buckets << " buckets; the ranks waited "
            << graph::fixed(1e3 * traffic.waited_seconds / static_cast<double>(traffic.calls), 2)
            << " ms a step for each other's\n";
}

void print_result(Trainer& trainer, const Corpus& corpus, const TrainOptions& options,
                  double mark) {
  const double loss = trainer.held_out_loss();
  const nn::EvalMode without_dropout(trainer.model());
  std::cout << "\nheld-out loss " << loss_text(loss)
            << " nats a character over all held-out text: " << verdict(loss, mark) << "\n";
  Generator generator(options.seed);
  std::cout << "\na sample:\n"
            << sample_text(trainer.model(), corpus.vocabulary, {}, sample_length,
                           {.temperature = sample_temperature}, generator)
            << "\n";
}

// As one word of a shell's command.
std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/._-+,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

void print_interrupted(const RunState& state, const TrainCommand& command, double mark) {
  std::cout << "\ninterrupted: saved after step " << state.step << "; this goes on from there"
            << (state.ranks > 1 ? ", with the other options that mpirun had:\n  mpirun -n " +
                                      std::to_string(state.ranks) + " --bind-to none "
                                : ":\n  ")
            << quoted(command.program) << " train --resume --out " << quoted(command.folder)
            << "\n";
  if (state.held_out.empty()) return;
  const RunState::Evaluation& last = state.held_out.back();
  std::cout << "\nheld-out loss " << loss_text(last.loss)
            << " nats a character when last measured, after step " << last.step << ": "
            << verdict(last.loss, mark) << "\n";
}

// ---- the command --------------------------------------------------------------------------------

void train(Trainer& trainer, const Corpus& corpus, const TrainCommand& command) {
  const TrainOptions options = trainer.state().options;
  print_model(trainer, options);
  const double mark = bigram_loss(corpus);
  const RunEnd end = TrainingRun(trainer, command.folder).run();
  print_traffic(trainer.traffic());
  if (end == RunEnd::interrupted) print_interrupted(trainer.state(), command, mark);
  if (end == RunEnd::out_of_time)
    std::cout << "\ntime is up: saved after step " << trainer.state().step << "\n";
  if (end != RunEnd::interrupted) print_result(trainer, corpus, options, mark);
  std::cout << "\nin " << command.folder
            << ": model.safetensors, checkpoint.safetensors, losses.csv, graph.json, graph.html"
            << std::endl;
}

// What a rank has of a run. The folder is the first one's.
struct Prepared {
  std::optional<RunFolder> folder;
  Corpus corpus;
  std::optional<Trainer> trainer;
};

void check_and_use(const TrainOptions& options, const nn::ProcessGroup& group) {
  check(options);
  if (options.threads > 0) set_num_threads(static_cast<int>(options.threads));
  else if (group.size() > 1) set_num_threads(group.share_of_cores());
}

void start(const TrainCommand& command, const nn::ProcessGroup& group, Prepared& run) {
  check_and_use(command.options, group);
  run.corpus = read_text(command.options);
  run.trainer.emplace(RunState{.options = command.options,
                               .characters = run.corpus.vocabulary.characters(),
                               .checksum = run.corpus.checksum,
                               .ranks = group.size()},
                      run.corpus);
  if (group.rank() == 0) run.folder.emplace(command.folder);
}

// A step's batch is that of all ranks.
void check_same_ranks(const RunState& state, const nn::ProcessGroup& group,
                      const std::string& folder) {
  if (state.ranks != group.size())
    throw ValueError("train",
                     "the run in " + folder + " was started with mpirun -n " +
                         std::to_string(state.ranks) + ", and here " +
                         (group.size() == 1 ? "is 1 process"
                                            : "are " + std::to_string(group.size()) + " ranks"));
}

void set_earlier_run_aside(const std::string& path, const RunFolder& folder) {
  if (!has_run(path)) return;
  std::cout << "note    the earlier run in " << path << " was moved to "
            << folder.set_earlier_run_aside().string() << "\n";
}

void resume(const TrainCommand& command, const nn::ProcessGroup& group, Prepared& run) {
  // Before anything is read, for it may be about to change; but no folder is made for a slip.
  check_has_run(command.folder);
  if (group.rank() == 0) run.folder.emplace(command.folder);
  StoredRun stored = load_run(command.folder);
  check_same_ranks(stored.state, group, command.folder);
  stored.state.options = resumed_options(command, stored.state.options);
  if (is_given(command, "steps"))
    change_length(*command.options.steps, stored.state, command.folder);
  check_and_use(stored.state.options, group);
  run.corpus = read_text(stored.state.options);
  check_same_text(run.corpus, stored.state, command.folder);
  run.trainer.emplace(stored.state, run.corpus);
  restore(stored, command.folder, *run.trainer);
  std::cout << "resume  " << command.folder << " after step " << stored.state.step << "\n";
}

}  // namespace

int run_train(const TrainCommand& command) {
  const std::unique_ptr<nn::ProcessGroup> group = join_ranks();
  as_one(*group, [&] {
    Prepared run;
    together(*group,
             [&] { command.resume ? resume(command, *group, run) : start(command, *group, run); });
    nn::check_agreement(*group, "train", {"--out " + command.folder});
    run.trainer->join(*group);
    // Not before it is sure that the new run begins.
    together(*group, [&] {
      if (run.folder && !command.resume) set_earlier_run_aside(command.folder, *run.folder);
    });
    train(*run.trainer, run.corpus, command);
  });
  return done;
}

}  // namespace tapehead::program
