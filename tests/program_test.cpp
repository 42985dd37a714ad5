// The program `tapehead` as a user runs it: as a process, by its exit code, output and files.
#include "support/program.h"
#include "support/checks.h"
#include "support/program_process.h"

#include <tapehead/graph/json.h>
#include <tapehead/nn/atomic_file.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/create.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace tapehead;
using tests::Arguments;
using tests::contains;
using tests::Finished;
using tests::Process;
using tests::Stdout;
using Folder = tests::WorkFolder;
using tests::content;
using tests::losses;
using tests::resume;
using tests::run;
using tests::sample_text;
using tests::train;

namespace {

namespace fs = std::filesystem;

void wait_for(const std::string& path) {
  for (int i = 0; i < 6000 && !fs::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(fs::exists(path));
}

// Ten seconds and more: it is not over when the test looks. A twentieth of it takes half a second.
const Arguments long_run = {"--steps", "40000"};
constexpr std::size_t milestone_interval = 2000;  // the steps between held-out losses

void wait_for_milestone(const Process& process, std::size_t step) {
  const std::string line = "step " + std::to_string(step) + "/40000  loss ";
  for (int i = 0; i < 6000 && !contains(process.out(), line); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(contains(process.out(), line));
}

// Bad input, or lost output: exit code 2, one line on stderr.
void check_refused(const Folder& folder, const Arguments& arguments, const std::string& what,
                   Stdout stdout_is = Stdout::file) {
  const Finished finished = run(folder, arguments, stdout_is);
  INFO(what, ": ", finished.err);
  CHECK(finished.exit_code == 2);
  CHECK(contains(finished.err, what));
  CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
}

}  // namespace

// ---- training -----------------------------------------------------------------------------------

TEST_CASE("training leaves a model, a checkpoint, losses and a graph, and says what it saved") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const Finished finished = run(folder, train(text, out, {"--steps", "40", "--lr", "0.01"}));
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  CHECK(finished.err.empty());
  CHECK(contains(finished.out, "saved activations"));
  CHECK(contains(finished.out, "the bigram model's"));
  CHECK(contains(finished.out, "a sample:"));
  CHECK(contains(finished.out, "step 40/40  loss "));
  CHECK_FALSE(contains(finished.out, "\r"));  // plain lines, for this is no terminal
  CHECK(losses(out).size() == 40);
  const Graph graph = graph::read_json(out + "/graph.json");
  CHECK(graph.saved_activation_bytes() > 0);
  const nn::Safetensors model = nn::load_safetensors(out + "/model.safetensors");
  CHECK(model.metadata.at("format") == "tapehead-model/1");
  CHECK_FALSE(contains(model.metadata.at("description"), folder / ""));
}

TEST_CASE("a trained model continues a prompt, the same for the same seed") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "5"})).exit_code == 0);
  const auto sampled = [&](const Arguments& more) {
    Arguments all = {"sample", "--model", out, "--prompt", "the t\xc3\xa9", "--tokens", "50"};
    all.insert(all.end(), more.begin(), more.end());
    const Finished finished = run(folder, all);
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.starts_with("the t\xc3\xa9"));
    return finished.out;
  };
  CHECK(sampled({"--seed", "3"}) == sampled({"--seed", "3"}));
  CHECK(sampled({"--seed", "3"}) != sampled({"--seed", "4"}));
  CHECK(sampled({"--temperature", "0", "--seed", "3"}) == sampled({"--top-k", "1", "--seed", "4"}));
  check_refused(folder, {"sample", "--model", out, "--prompt", "\xe5\xb1\xa4"},
                "does not know the character");
  check_refused(folder, {"sample", "--model", out, "--prompt", "\xff"}, "not UTF-8 at byte 0");
  check_refused(folder, {"sample", "--model", out, "--prompt", ""}, "sample: --prompt: it must");
  check_refused(folder, {"sample", "--model", out, "--tokens", "-1"},
                "sample: --tokens -1: it must not be negative");
  check_refused(folder, {"sample", "--model", out, "--temperature", "-1"},
                "sample: --temperature -1: it must not be negative");
  check_refused(folder, {"sample", "--model", out, "--top-k", "0"},
                "sample: --top-k 0: it must be positive");
  check_refused(folder, {"sample", "--model", folder / "nowhere"},
                "nowhere: there is no trained model");
}

TEST_CASE("training, sampling and maps share a folder when none is named") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  const tests::Folder elsewhere;
  const auto runs = [&](const std::string& arguments) {
    return tests::run_program(arguments + " > out.txt 2> err.txt", elsewhere.file("").string());
  };
  CHECK(runs("sample --tokens 5") == 2);
  CHECK(contains(content(elsewhere.file("err.txt").string()), "tapehead-run"));
  REQUIRE(runs("train --steps 2 --layers 1 --heads 1 --dim 8 --threads 1 --context 16 --text " +
               text) == 0);
  CHECK(runs("sample --tokens 5") == 0);
  CHECK(runs("maps --text tape") == 0);
}

TEST_CASE("the same run twice gives the same losses, and another seed gives others") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  REQUIRE(run(folder, train(text, folder / "a", {"--steps", "6"})).exit_code == 0);
  REQUIRE(run(folder, train(text, folder / "b", {"--steps", "6"})).exit_code == 0);
  REQUIRE(run(folder, train(text, folder / "c", {"--steps", "6", "--seed", "2"})).exit_code == 0);
  CHECK(losses(folder / "a") == losses(folder / "b"));
  CHECK(losses(folder / "a") != losses(folder / "c"));
}

TEST_CASE("training in f64 keeps a model in f64") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "3", "--dtype", "f64"})).exit_code == 0);
  for (const nn::NamedTensor& entry : nn::load_safetensors(out + "/model.safetensors").tensors)
    CHECK(entry.tensor.dtype() == DType::f64);
  CHECK(run(folder, {"sample", "--model", out}).exit_code == 0);
}

TEST_CASE("a run that was interrupted or killed goes on bit for bit") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  const std::vector<int> signals = {SIGINT, SIGTERM, SIGKILL};
  const auto out = [&](int number) { return folder / ("stopped" + std::to_string(number)); };
  std::size_t most_done = 0;
  for (const int number : signals) {
    Process process(folder, train(text, out(number), long_run));
    wait_for(out(number) + "/graph.json");
    process.send(number);
    CHECK(process.wait() == (number == SIGKILL ? -SIGKILL : 0));
    CHECK(process.err().empty());
    CHECK(contains(process.out(), "interrupted: saved after step ") == (number != SIGKILL));
    most_done = std::max(most_done, losses(out(number)).size());
  }
  // Learning rates are those of the run's length, so that of the run which goes on must be the same
  // too, and it ends by another signal.
  const std::size_t milestone = (most_done / milestone_interval + 1) * milestone_interval;
  const auto until_milestone = [&](const std::string& run, const Arguments& arguments) {
    Process process(folder, arguments);
    wait_for_milestone(process, milestone);
    process.send(SIGINT);
    CHECK(process.wait() == 0);
    std::vector<std::string> all = losses(run);
    REQUIRE(all.size() >= milestone);
    all.resize(milestone);
    return all;
  };
  const std::string whole = folder / "whole";
  const std::vector<std::string> expected = until_milestone(whole, train(text, whole, long_run));
  for (const int number : signals)
    CHECK(until_milestone(out(number), resume(out(number))) == expected);
}

TEST_CASE("an interrupted run shows the command that goes on, and its loss against the bigram's") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "it's a run";
  REQUIRE(run(folder, train(text, out, {"--steps", "20"})).exit_code == 0);
  Arguments longer = resume(out);
  longer.insert(longer.end(), long_run.begin(), long_run.end());
  Process process(folder, longer);
  wait_for_milestone(process, milestone_interval);
  process.send(SIGINT);
  REQUIRE(process.wait() == 0);
  const std::string shown = process.out(), before = "this goes on from there:\n  ";
  CHECK(contains(shown, " nats a character when last measured, after step "));
  CHECK(contains(shown, "the bigram model's "));
  const std::size_t begin = shown.find(before) + before.size();
  const std::string command = shown.substr(begin, shown.find('\n', begin) - begin);
  const std::size_t done = losses(out).size();
  const std::string shorter = " --steps " + std::to_string(done + 10);
  CHECK(std::system((command + shorter + " > '" + folder / "pasted.txt" + "'").c_str()) == 0);
  CHECK(losses(out).size() == done + 10);
}

TEST_CASE("under --minutes the length is estimated once, stored, and kept") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const auto started = std::chrono::steady_clock::now();
  REQUIRE(run(folder, train(text, out, {"--minutes", "0.05"})).exit_code == 0);
  // 3 seconds of training at most a fifth over, the start of the process, and the final evaluation.
  CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(60));
  const std::size_t steps = losses(out).size();
  CHECK(steps > 3);
  // A machine that became slower meanwhile stops the run before its stored length, which it reaches
  // when it is resumed. It never goes beyond.
  CHECK(run(folder, resume(out)).exit_code == 0);
  const std::size_t length = losses(out).size();
  CHECK(length >= steps);
  CHECK(run(folder, resume(out)).exit_code == 0);
  CHECK(losses(out).size() == length);
}

TEST_CASE("a resumed run keeps its options, its text, and its files") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "4"})).exit_code == 0);
  const std::string before = content(out + "/checkpoint.safetensors");
  const auto with = [&](const Arguments& more) {
    Arguments all = resume(out);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  check_refused(folder, with({"--dim", "32"}), "--dim 32: the run in");
  check_refused(folder, with({"--steps", "3"}), "--steps 3: the run in ");
  check_refused(folder, with({"--steps", "3"}),
                " has done 4 steps; its length can be that or more");
  check_refused(folder, with({"--minutes", "1"}), "--minutes 1.0: the run in");
  check_refused(folder, {"train", "--resume", "--out", out, "--threads", "4294967297"},
                "--threads 4294967297: it must be 0 to 1024");
  check_refused(folder, with({"--text", folder.write("other.txt", "another text")}),
                "the text is not the one");
  check_refused(folder, {"train", "--resume", "--out", folder / "nowhere"},
                "nowhere/checkpoint.safetensors");
  CHECK(content(out + "/checkpoint.safetensors") == before);
  CHECK(run(folder, with({"--dim", "16", "--text", folder.write("moved.txt", sample_text())}))
            .exit_code == 0);
}

TEST_CASE("a run that is done goes on when it is resumed with more steps, by their schedule") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "20"})).exit_code == 0);
  const std::vector<std::string> before = losses(out);
  Arguments longer = resume(out);
  longer.insert(longer.end(), {"--steps", "30"});
  const Finished extended = run(folder, longer);
  INFO(extended.err);
  CHECK(extended.exit_code == 0);
  CHECK(contains(extended.out, "note    the run is to have 30 steps, not 20; from here on"));
  const std::vector<std::string> after = losses(out);
  REQUIRE(after.size() == 30);
  CHECK(std::equal(before.begin(), before.end(), after.begin()));
  // The length is stored: without --steps there is nothing left to do, and the same is no change.
  CHECK(run(folder, resume(out)).exit_code == 0);
  CHECK_FALSE(contains(run(folder, longer).out, "note"));
  CHECK(losses(out) == after);
  // Another length from the same place gives other losses: the schedule is that of the length.
  const std::string other = folder / "other";
  REQUIRE(run(folder, train(text, other, {"--steps", "20"})).exit_code == 0);
  Arguments longest = resume(other);
  longest.insert(longest.end(), {"--steps", "60"});
  CHECK(run(folder, longest).exit_code == 0);
  const std::vector<std::string> others = losses(other);
  REQUIRE(others.size() == 60);
  CHECK(others[20] == after[20]);  // computed before the first step that the schedule moves
  CHECK(others[22] != after[22]);
}

TEST_CASE("two runs do not write to one folder at the same time") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const Folder of_the_other;
  Process other(of_the_other, train(text, out, {"--steps", "1000000"}));
  wait_for(out + "/graph.json");
  const std::string owner = "run: another run is writing there (process ";
  check_refused(folder, train(text, out, {"--steps", "3"}), owner);
  check_refused(folder, resume(out), owner);
  CHECK(run(folder, train(text, folder / "elsewhere", {"--steps", "3"})).exit_code == 0);
  other.send(SIGINT);
  CHECK(other.wait() == 0);
  CHECK(losses(out).size() > 3);
  CHECK(run(folder, train(text, out, {"--steps", "3"})).exit_code == 0);
  CHECK(losses(out).size() == 3);
}

TEST_CASE("what a killed run was writing is removed by the next run, and nothing else") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "3"})).exit_code == 0);
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(out)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> clean = files();
  CHECK(clean == std::vector<std::string>{".lock", "checkpoint.safetensors", "graph.html",
                                          "graph.json", "losses.csv", "model.safetensors"});
  for (const std::string& name : clean) folder.write("run/" + name + ".tmp-4194303-7", "half");
  folder.write("run/notes.csv.tmp-1-0", "of the user");
  check_refused(folder, train(folder / "missing.txt", out), "missing.txt");
  CHECK(files().size() == 2 * clean.size() + 1);
  REQUIRE(run(folder, resume(out)).exit_code == 0);
  CHECK(files() == std::vector<std::string>{
                       ".lock", ".lock.tmp-4194303-7", "checkpoint.safetensors", "graph.html",
                       "graph.json", "losses.csv", "model.safetensors", "notes.csv.tmp-1-0"});
}

// ---- the lecture --------------------------------------------------------------------------------

TEST_CASE("the program prints the lecture's figures, one group or in JSON, and refuses others") {
  const Folder folder;
  const Finished text = run(folder, {"lecture", "--only", "9"});
  CHECK(text.exit_code == 0);
  CHECK(text.err.empty());
  CHECK(contains(text.out, "(9) Parameters"));
  CHECK(text.out.ends_with(" passed, 0 failed\n"));
  const Finished json = run(folder, {"lecture", "--only", "7", "--json"});
  CHECK(json.exit_code == 0);
  CHECK(json.out.starts_with("{\n"));
  CHECK(contains(json.out, "\"format\": \"tapehead-lecture/1\""));
  check_refused(folder, {"lecture", "--only", "13"}, "no group \"13\"");
  check_refused(folder, {"lecture", "--colour"}, "--colour");
}

// ---- bad input ----------------------------------------------------------------------------------

TEST_CASE("bad text is refused with one line, and nothing is written") {
  const Folder folder;
  const std::string good = folder.write("good.txt", sample_text()), out = folder / "run";
  check_refused(folder, train(folder / "missing.txt", out), "missing.txt");
  check_refused(folder, train(folder / "", out), "directory");
  check_refused(folder, train(folder.write("empty.txt", ""), out), "empty.txt: the file is empty");
  check_refused(folder, train(folder.write("bom.txt", "\xef\xbb\xbf"), out),
                "bom.txt: the file is empty");
  check_refused(folder, train(folder.write("latin1.txt", "caf\xe9 au lait"), out),
                "latin1.txt: not UTF-8 at byte 3 (0xe9)");
  check_refused(folder, train(folder.write("short.txt", "only a few"), out),
                "--context 16: the text has");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("sizes that cannot be are refused with one line, and nothing is written") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const auto refused = [&](const std::string& option, const std::string& value,
                           const std::string& what) {
    check_refused(folder, {"train", "--text", text, "--out", out, option, value}, what);
  };
  for (const std::string option :
       {"--layers", "--heads", "--dim", "--context", "--batch", "--steps", "--minutes", "--lr"}) {
    refused(option, "0", option + " 0");
    refused(option, "-3", option + " -3");
    refused(option, "many", "many");
  }
  refused("--heads", "5", "--dim 128: it must be a multiple of --heads 5");
  refused("--dtype", "f16", "--dtype f16");
  refused("--threads", "-1", "--threads -1");
  refused("--threads", "4294967297", "--threads 4294967297: it must be 0 to 1024");
  refused("--minutes", "1e300", "--minutes 1e+300: it must be at most 1e+09");
  refused("--context", "99999999", "--context 99999999");
  refused("--colour", "red", "--colour");
  check_refused(folder, train(text, out, {"--steps", "3", "--minutes", "1"}), "--minutes");
  check_refused(folder, {}, "subcommand");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE(
    "sizes that need more memory than there is are refused with the bytes, before any is taken") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const auto refused = [&](const Arguments& more, const std::string& what) {
    Arguments all = {"train", "--text", text, "--out", out};
    all.insert(all.end(), more.begin(), more.end());
    check_refused(folder, all, what);
  };
  refused({"--batch", "100000000000"}, "--batch 100000000000: a step needs at least ");
  refused({"--layers", "1000000000000"},
          "--layers 1000000000000 --dim 128 --context 128 --batch 8");
  refused({"--layers", "9223372036854775807"}, " 9,223,372,036,854,775,807 (8.00 EiB), and this ");
  refused({"--dim", "10000000"}, "a step needs at least ");
  refused({"--dim", "1000000000"},
          "--dim 1000000000 --context 128 --batch 8: a tensor of such a model has ");
  refused({"--dim", "9223372036854775804"}, "63 bits");
  refused({"--batch", "9223372036854775807"}, "63 bits");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("numbers that their options cannot hold are refused, not bent") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const auto refused = [&](const std::string& command, const std::string& option,
                           const Arguments& values) {
    for (const std::string& value : values)
      check_refused(folder, {command, option, value}, option + ": " + value + " is not a ");
  };
  for (const std::string option : {"--lr", "--minutes"})
    refused("train", option, {"nan", "-inf", "inf", "1e400", "0x10", "1,5", "", "1e-400"});
  refused("sample", "--temperature", {"nan", "inf", "1e400"});
  for (const std::string option :
       {"--layers", "--heads", "--dim", "--context", "--batch", "--steps", "--threads"})
    refused("train", option, {"9223372036854775808", "1e12", "2.5", "010x", "0x10"});
  for (const std::string option : {"--tokens", "--top-k"})
    refused("sample", option, {"9223372036854775808", "-9223372036854775809"});
  for (const std::string command : {"train", "sample"})
    refused(command, "--seed", {"18446744073709551616", "-1"});
  check_refused(folder, {"graph", "peak", "step.json", "--limit", "-1"}, "--limit: -1 is not a ");
  const Arguments largest = {"--steps", "1", "--seed", "18446744073709551615"};
  CHECK(run(folder, train(text, out, largest)).exit_code == 0);
  CHECK(run(folder, {"train", "--resume", "--out", out, "--seed", "18446744073709551615"})
            .exit_code == 0);
  check_refused(folder, {"train", "--resume", "--out", out, "--seed", "18446744073709551614"},
                "--seed 18446744073709551614: the run in");
  CHECK(run(folder, train(text, folder / "b", {"--steps", "010"})).exit_code == 0);
  CHECK(losses(folder / "b").size() == 10);
}

TEST_CASE("an output folder that cannot be written to is refused, and what is there stays") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  check_refused(folder, train(text, folder.write("file", "precious")), "file");
  CHECK(content(folder / "file") == "precious");
  check_refused(folder, train(text, folder / "file/below"), "file/below");
  check_refused(folder, train(text, "/proc/tapehead"), "/proc/tapehead");
}

TEST_CASE("a damaged checkpoint is refused with one line and stays as it is") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "2"})).exit_code == 0);
  const std::string file = out + "/checkpoint.safetensors", good = content(file);
  const auto refused = [&](const std::string& damaged) {
    std::ofstream(file, std::ios::binary) << damaged;
    check_refused(folder, resume(out), "checkpoint.safetensors");
    CHECK(content(file) == damaged);
  };
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, good.size() / 2, good.size() - 1})
    refused(good.substr(0, length));
  refused(std::string(1000, 'x'));
  refused(content(out + "/model.safetensors"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    REQUIRE(from.size() == to.size());
    std::string damaged = good;
    REQUIRE(contains(damaged, from));
    refused(damaged.replace(damaged.find(from), from.size(), to));
  };
  changed("\\\"dim\\\":16", "\\\"dim\\\":32");
  changed("\\\"layers\\\":1", "\\\"layers\\\":9");
  changed("\\\"step\\\":2", "\\\"step\\\":3");
  changed("\\\"step\\\":2", "\\\"stop\\\":2");
}

// ---- cases --------------------------------------------------------------------------------------

TEST_CASE("a tensor of another dtype or shape in a checkpoint is refused by name") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "2"})).exit_code == 0);
  const std::string file = out + "/checkpoint.safetensors";
  const nn::Safetensors good = nn::load_safetensors(file);
  const auto refused = [&](std::size_t which, const Tensor& other) {
    nn::Safetensors damaged = good;
    damaged.tensors[which].tensor = other;
    nn::save_safetensors(file, damaged.tensors, damaged.metadata);
    const std::string written = content(file), name = damaged.tensors[which].name;
    CAPTURE(name);
    const Finished finished = run(folder, resume(out));
    CHECK(finished.exit_code == 2);
    CHECK(contains(finished.err, "checkpoint.safetensors: "));
    CHECK(contains(finished.err, name.substr(name.find('.') + 1)));
    CHECK(content(file) == written);
  };
  std::set<std::string> kinds;  // the last part of each name
  for (std::size_t i = 0; i < good.tensors.size(); ++i) {
    const auto& [name, tensor] = good.tensors[i];
    if (!kinds.insert(name.substr(name.rfind('.') + 1)).second) continue;
    refused(i, zeros(tensor.shape(), tensor.dtype() == DType::i64 ? DType::f64 : DType::i64));
    refused(i, zeros({3, 1, 1}, tensor.dtype()));
    if (name != "held_out") continue;
    for (const double step : {0.0, 3.0, 1e300, std::nan("")})  // made were 2
      refused(i, from_vector(std::vector<double>{step, 1}, {1, 2}));
  }
  CHECK(kinds.size() >= 10);
}

TEST_CASE("cases closes with the count, and its exit code says whether all passed") {
  const Folder folder;
  const std::string cases = std::string(TAPEHEAD_SOURCE_DIR) + "/tests/cases/";
  const Finished good = run(folder, {"cases", cases + "unary.json", cases + "reduce.json"});
  CHECK(good.exit_code == 0);
  CHECK(good.out.ends_with(" passed, 0 failed\n"));
  const Finished few = run(folder, {"cases", cases + "unary.json", "--only", "neg/m?t*x"});
  CHECK(few.exit_code == 0);
  CHECK(few.out == "1 passed, 0 failed\n");
  check_refused(folder, {"cases", cases + "unary.json", "--only", "nothing"},
                "no case is named like");
  check_refused(folder, {"cases", folder / "missing.json"}, "missing.json");
  check_refused(folder, {"cases", folder.write("broken.json", "{")}, "broken.json");
  check_refused(folder, {"cases"}, "FILE");
}

TEST_CASE("cases reports a failure by name, worst element, got and want; also as JSON") {
  const Folder folder;
  const std::string file =
      folder.write("bad.json", R"({"format": "tapehead-cases/1", "source": "hand", "cases": [
{"name": "neg/wrong", "op": "neg", "inputs": [{"name": "x", "dtype": "f64", "shape": [2], "data": [1, 2]}], "args": {},
 "outputs": [{"dtype": "f64", "shape": [2], "data": [-1, 2]}], "rtol": 0, "atol": 0},
{"name": "no/such", "op": "nosuch", "inputs": [], "args": {}, "outputs": [], "rtol": 0, "atol": 0}]})");
  const Finished finished = run(folder, {"cases", file});
  CHECK(finished.exit_code == 1);
  CHECK(finished.out ==
        "FAILED neg/wrong: output 0 at (1): got -2, want 2; 1 of 2 elements are out of tolerance\n"
        "FAILED no/such: unknown operation \"nosuch\"\n"
        "0 passed, 2 failed\n");
  const Finished as_json = run(folder, {"cases", file, "--json"});
  CHECK(as_json.exit_code == 1);
  CHECK(contains(as_json.out, "\"failed\": 2"));
  CHECK(contains(as_json.out, "\"want\": 2.0"));
}

TEST_CASE("help answers on stdout with exit code 0 and shows an example") {
  const Folder folder;
  for (const std::string command : {"train", "sample", "cases", "plan"}) {
    const Finished finished = run(folder, {command, "--help"});
    CHECK(finished.exit_code == 0);
    CHECK(contains(finished.out, "Example: tapehead " + command));
  }
  CHECK(run(folder, {"--help"}).exit_code == 0);
}

TEST_CASE("help fits 100 columns") {
  const Folder folder;
  for (const Arguments& arguments :
       {Arguments{"--help"}, {"--help-all"}, {"graph", "--help"}, {"plan", "--help"}}) {
    std::istringstream lines(run(folder, arguments).out);
    std::size_t longest = 0;
    for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
    CHECK(longest <= 100);
    CHECK(longest > 80);
  }
}

TEST_CASE("an unknown command is named, with those that there are") {
  const Folder folder;
  const Finished foo = run(folder, {"foo"});
  CHECK(foo.exit_code == 2);
  CHECK(contains(foo.err, "there is no command \"foo\"; there are train, sample"));
  const Finished graph = run(folder, {"graph", "foo", "x.json"});
  CHECK(graph.exit_code == 2);
  CHECK(contains(graph.err, "there is no command \"foo\"; there are summary, saved"));
}

TEST_CASE("a new run keeps the files of the run before, and shows a step with all its state") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "3", "--seed", "1"})).exit_code == 0);
  const std::string model = content(out + "/model.safetensors");
  const Finished second = run(folder, train(text, out, {"--steps", "3", "--seed", "2"}));
  REQUIRE(second.exit_code == 0);
  CHECK(contains(second.out, "was moved to " + out + "/previous"));
  CHECK(content(out + "/previous/model.safetensors") == model);
  CHECK(content(out + "/model.safetensors") != model);

  const Graph graph = graph::read_json(out + "/graph.json");
  std::int64_t parameters = 0, state = 0;
  for (const Graph::Storage& storage : graph.storages) {
    if (storage.category == Category::parameter) parameters += storage.bytes;
    if (storage.category == Category::optimizer_state) state += storage.bytes;
  }
  CHECK(state == 2 * parameters);  // the two moments of AdamW
  for (const Graph::Event& event : graph.events)
    CHECK((!event.birth || graph.storages[static_cast<std::size_t>(event.storage)].category !=
                               Category::optimizer_state));
}

// ---- stdout -------------------------------------------------------------------------------------

namespace {

// Every command, with a run in the folder for those that need one.
std::vector<Arguments> every_command(const Folder& folder) {
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "3"})).exit_code == 0);
  const std::string cases = std::string(TAPEHEAD_SOURCE_DIR) + "/tests/cases/compare.json";
  std::vector<Arguments> all = {
      {"--help"},
      {"--help-all"},
      {"train", "--help"},
      {"graph", "peak", "--help"},
      {"cases", cases},
      {"cases", cases, "--json"},
      {"lecture", "--only", "9"},
      {"lecture", "--only", "9", "--json"},
      {"sample", "--model", out, "--tokens", "5"},
      {"maps", "--model", out, "--text", "the tape", "--out", folder / "maps.html"},
      resume(out),
      train(text, folder / "another", {"--steps", "3"})};
  for (const std::string report : {"summary", "saved", "timeline", "peak", "flops", "dot", "trace"})
    all.push_back({"graph", report, out + "/graph.json"});
  for (const std::string report : {"summary", "saved", "timeline", "peak", "flops"})
    all.push_back({"graph", report, out + "/graph.json", "--json"});
  return all;
}

}  // namespace

TEST_CASE("no command succeeds whose output was lost") {
  const Folder folder;
  for (const Arguments& command : every_command(folder)) {
    INFO(command.front());
    const Finished finished = run(folder, command);
    CHECK(finished.exit_code == 0);
    CHECK_FALSE(finished.out.empty());
    check_refused(folder, command, "tapehead: stdout: output was lost", Stdout::full_disk);
    check_refused(folder, command, "tapehead: stdout: output was lost", Stdout::closed);
  }
}

TEST_CASE("lost output says why, and bad input stays the news") {
  const Folder folder;
  const Arguments lecture = {"lecture", "--only", "9"};
  check_refused(folder, lecture, "lost: No space left on device", Stdout::full_disk);
  check_refused(folder, lecture, "lost: Bad file descriptor", Stdout::closed);
  check_refused(folder, {"lecture", "--only", "13"}, "no group \"13\"", Stdout::full_disk);
}

TEST_CASE("with stdout closed nothing that is printed finds its way into a file") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  for (const std::string name : {"a", "b"})
    CHECK(run(folder, train(text, folder / name, {"--steps", "3"}),
              name == "a" ? Stdout::file : Stdout::closed)
              .exit_code == (name == "a" ? 0 : 2));
  for (const std::string file : {"/losses.csv", "/model.safetensors", "/graph.json", "/.lock"})
    CHECK(content(folder / ("a" + file)) == content(folder / ("b" + file)));
}

TEST_CASE(
    "a reader that goes away ends a command without a word; where that is ignored, with one") {
  const Folder folder;
  const Arguments lecture = {"lecture", "--only", "9"};
  const Finished ended = run(folder, lecture, Stdout::unread_pipe);
  CHECK(ended.exit_code == -SIGPIPE);
  CHECK(ended.err.empty());
  check_refused(folder, lecture, "tapehead: stdout: output was lost: Broken pipe",
                Stdout::unread_pipe_without_signal);
}

TEST_CASE("a device is not replaced by a file") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  REQUIRE(run(folder, train(text, out, {"--steps", "1"})).exit_code == 0);
  const std::string device = folder / "device";
  fs::create_symlink("/dev/full", device);
  check_refused(folder, {"graph", "dot", out + "/graph.json", "-o", device},
                "device: is no regular file, and will not be replaced");
  CHECK(fs::is_symlink(device));
}
