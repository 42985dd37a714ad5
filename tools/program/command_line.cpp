#include "command_line.h"

#include <tapehead/core/error.h>
#include <tapehead/core/version.h>
#include <tapehead/graph/text.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "add_command.h"
#include "bench/bench.h"
#include "cases/command.h"
#include "cases/format.h"
#include "check_numbers.h"
#include "commands.h"
#include "help_text.h"
#include "lecture/lecture.h"
#include "train/command.h"
#include "train/maps_command.h"
#include "train/ranks.h"
#include "train/sample_command.h"

namespace tapehead::program {
namespace {

// ---- what each command may be told -------------------------------------------------------------

// Empty, it would be the folder in which the program was started.
std::string is_folder(const std::string& name) {
  return name.empty() ? "it must name a folder" : "";
}

void note_given(const CLI::App& sub, TrainCommand& command) {
  for (const std::string& name : train_option_names())
    if (sub.count("--" + name) > 0) command.given.push_back(name);
}

void add_train(CLI::App& app, const std::string& program, int& exit_code) {
  const auto command = std::make_shared<TrainCommand>();
  command->program = program;
  CLI::App& sub = add_command(
      app, "train",
      "Trains a character-level language model, prints what its backward pass saves, and compares "
      "its held-out loss with a bigram model's. Ctrl-C finishes the step, saves and ends with exit "
      "code 0; --resume goes on, and with --steps makes the run longer. mpirun -n N tapehead train "
      "... trains with N processes, each with a batch of its own.\n"
      "Example: tapehead train --text book.txt --minutes 10 --out book",
      command, run_train, exit_code);
  TrainOptions& o = command->options;
  sub.add_option("--text", o.text,
                 "UTF-8 files (default: this repository's sources and documents)");
  sub.add_option("--layers", o.layers, "Transformer blocks")->capture_default_str();
  sub.add_option("--heads", o.heads, "Attention heads; they divide dim")->capture_default_str();
  sub.add_option("--dim", o.dim, "Features")->capture_default_str();
  sub.add_option("--context", o.context, "Characters seen at once")->capture_default_str();
  sub.add_option("--batch", o.batch, "Sequences a step, of each rank")->capture_default_str();
  CLI::Option* steps =
      sub.add_option("--steps", o.steps, "Length of the run in steps; with --resume a new one");
  sub.add_option("--minutes", o.minutes, "Or in minutes")->capture_default_str()->excludes(steps);
  sub.add_option("--lr", o.lr, "Learning rate after the warm-up")->capture_default_str();
  sub.add_option("--seed", o.seed, "Of weights and batches")->capture_default_str();
  sub.add_option("--threads", o.threads,
                 "0: one for each core; of several ranks, each has its part of them")
      ->capture_default_str();
  sub.add_option("--dropout", o.dropout, "Of the blocks and the embeddings")->capture_default_str();
  sub.add_option("--dtype", o.dtype, "f32 or f64")->capture_default_str();
  sub.add_option("--out", command->folder, "Folder of the run")
      ->check(is_folder)
      ->capture_default_str();
  sub.add_flag("--resume", command->resume, "Go on with the run in the folder, with its options");
  sub.parse_complete_callback([&sub, command] { note_given(sub, *command); });
}

void add_sample(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<SampleCommand>();
  CLI::App& sub = add_command(app, "sample",
                              "Continues a prompt with a model that `tapehead train` saved.\n"
                              "Example: tapehead sample --prompt 'Tensor ' --tokens 200",
                              command, run_sample, exit_code);
  sub.add_option("--model", command->model, "Folder of the run")
      ->check(is_folder)
      ->capture_default_str();
  sub.add_option("--prompt", command->prompt, "Text to continue; without it, a new line");
  sub.add_option("--tokens", command->tokens, "Characters to add")->capture_default_str();
  sub.add_option("--temperature", command->temperature,
                 "Below 1 more likely, above 1 more varied, 0 always the likeliest")
      ->capture_default_str();
  sub.add_option("--top-k", command->top_k, "Choose among the k likeliest characters only");
  sub.add_option("--seed", command->seed, "Of the random choices")->capture_default_str();
}

void add_maps(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<MapsCommand>();
  CLI::App& sub = add_command(
      app, "maps",
      "Shows what each head of a model that `tapehead train` saved attends to in a text: a page "
      "with heat maps, or the numbers.\n"
      "Example: tapehead maps --text 'const Tensor x = ' -o maps.html",
      command, run_maps, exit_code);
  sub.add_option("--model", command->model, "Folder of the run")
      ->check(is_folder)
      ->capture_default_str();
  sub.add_option("--text", command->text, "Text to look at, at most the model's context")
      ->required();
  sub.add_option("-o,--out", command->out, "File to write, .html or .json")->capture_default_str();
}

void add_cases(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<CasesCommand>();
  CLI::App& sub = add_command(
      app, "cases",
      "Runs case files (format tapehead-cases/1): operations with the results and gradients that "
      "another framework computed. Exit code 0 if all pass, 1 if some fail, 2 if a file is "
      "malformed.\n"
      "Example: tapehead cases tests/cases/*.json --only 'softmax/*'",
      command, run_cases, exit_code);
  sub.add_option("FILE", command->files, "Case files")->required();
  sub.add_option("--only", command->only,
                 "Only cases whose name contains this; * and ? are wildcards")
      ->check(is_filter);
  sub.add_flag("--json", command->as_json, "The report as JSON");
}

void add_lecture(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<lecture::LectureOptions>();
  CLI::App& sub = add_command(
      app, "lecture",
      "Computes the figures of a lecture on self-attention with this library's operations: for "
      "each the lecture's, ours, and the bound that decides. Exit code 0 if all pass, 1 if some "
      "fail.\n"
      "Example: tapehead lecture --only 4",
      options, lecture::run_lecture, exit_code);
  sub.add_option("--only", options->only, "One group: 1 to 12, or self-test")->check(is_filter);
  sub.add_flag("--json", options->json, "The report as JSON");
}

void add_bench(CLI::App& app, int& exit_code) {
  const auto command = std::make_shared<bench::BenchCommand>();
  CLI::App& sub = add_command(
      app, "bench",
      "Times what a small model does, each scenario in a process of its own after a check of its "
      "result against float64. Exit code 0, or 1 when a result is wrong.\n"
      "Example: tapehead bench --scenario 'gpt_*' --threads 2",
      command, bench::run_bench, exit_code);
  sub.add_option("--scenario", command->scenarios, "Names or patterns; all when not given")
      ->delimiter(',');
  sub.add_option("--threads", command->threads, "0: one for each core")->capture_default_str();
  sub.add_option("--budget", command->budget, "Seconds of timing for each")->capture_default_str();
  sub.add_flag("--no-check", command->unchecked, "Without the check, for repeats");
  sub.add_flag("--growth", command->growth,
               "How costs grow with the length of sequences, layers and nodes, instead");
  sub.add_flag("--list", command->list, "Only say what there is");
  sub.add_flag("--json", command->as_json, "A JSON object a line");
}

// Names in files stand in messages: nothing of them may act on the terminal.
int complain(std::string message, int exit_code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "tapehead: " << graph::printable(message) << std::endl;
  return exit_code;
}

// Output that was lost is no success. Whatever wrote to stdout, and whenever that failed, it shows
// here, where every command ends.
int check_output(int exit_code) {
  errno = 0;
  std::cout.flush();
  const int why = errno;
  if (std::cout && std::ferror(stdout) == 0) return exit_code;
  return complain(
      "stdout: output was lost" + (why ? ": " + std::generic_category().message(why) : ""),
      bad_input);
}

// "tapehead 0.1.0".
std::string version_text() {
  return "tapehead " + std::to_string(TAPEHEAD_VERSION_MAJOR) + "." +
         std::to_string(TAPEHEAD_VERSION_MINOR) + "." + std::to_string(TAPEHEAD_VERSION_PATCH);
}

bool every_one(const CLI::App*) { return true; }

// What is wrong with the first argument that should name a command and does not.
std::optional<std::string> unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::vector<const CLI::App*> commands = at->get_subcommands(every_one);
    if (commands.empty()) return {};
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* c) { return c->get_name() == argv[i]; });
    if (found == commands.end()) {
      std::string names;
      for (const CLI::App* command : commands)
        names += (names.empty() ? "" : ", ") + command->get_name();
      return "there is no command \"" + std::string(argv[i]) + "\"; there are " + names;
    }
    at = *found;
  }
  return {};
}

int parse_and_run(int argc, const char* const* argv) {
  int exit_code = done;
  CLI::App app("Trains a small transformer, and shows what the backward pass saves.", "tapehead");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "The version, and nothing else");
  app.set_help_all_flag("--help-all", "Help of all subcommands");
  add_train(app, argc > 0 ? argv[0] : "tapehead", exit_code);
  add_sample(app, exit_code);
  add_maps(app, exit_code);
  add_cases(app, exit_code);
  add_lecture(app, exit_code);
  add_bench(app, exit_code);
  add_graph(app, exit_code);
  add_plan(app, exit_code);
  check_numbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_text) {
    std::ostringstream help;
    app.exit(asked_for_text, help, help);
    std::cout << wrapped_help(help.str());
    return done;
  } catch (const CLI::RequiredError& error) {
    let_rank_0_speak();
    return complain(unknown_command(app, argc, argv).value_or(error.what()), bad_input);
  } catch (const CLI::ParseError& error) {
    let_rank_0_speak();
    return complain(error.what(), bad_input);
  } catch (const Error& error) {
    return complain(error.what(), bad_input);
  } catch (const CaseFormatError& error) {
    return complain(error.what(), bad_input);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", bad_input);
  } catch (const std::exception& error) {
    return complain(std::string("unexpected: ") + error.what(), bad_news);
  }
  return exit_code;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  const int exit_code = parse_and_run(argc, argv);
  return exit_code == bad_input ? bad_input : check_output(exit_code);
}

}  // namespace tapehead::program
