// Training as a user starts it, stops it and goes on: the program as a process, and the files of
// its runs.
#include "support/checks.h"
#include "support/program.h"
#include "support/program_process.h"

#include <tapehead/graph/json.h>
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
#include <string>
#include <thread>
#include <vector>

using namespace tapehead;
using Folder = tests::WorkFolder;
using tests::Arguments;
using tests::check_refused;
using tests::contains;
using tests::content;
using tests::Finished;
using tests::losses;
using tests::Process;
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

}  // namespace

// ---- a run --------------------------------------------------------------------------------------

TEST_CASE("training leaves a model, a checkpoint, losses and a graph, and says what it saved") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const Finished finished = run(folder, train(text, out, {"--steps", "40", "--lr", "0.01"}));
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  CHECK(finished.err.empty());
  CHECK(finished.out.starts_with("text    1 file, "));
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

TEST_CASE("a run whose last update diverges ends as one that diverges before, and saves nothing") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text()), out = folder / "run";
  const std::string model = out + "/model.safetensors";
  check_refused(folder, train(text, out, {"--steps", "1", "--lr", "1e300"}),
                "after step 1: the loss is not finite; a lower --lr may help");
  CHECK_FALSE(fs::exists(model));
  // Finite parameters that are too large to compute with.
  check_refused(folder, train(text, out, {"--steps", "1", "--lr", "1e30"}),
                "after step 1: the loss is not finite; a lower --lr may help");
  CHECK_FALSE(fs::exists(model));
}

// ---- stopped, and resumed -----------------------------------------------------------------------

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

// ---- files --------------------------------------------------------------------------------------

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
