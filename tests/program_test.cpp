// The program `tapehead` as a user runs it: as a process, by its exit code, output and files.
#include "support/checks.h"
#include "support/program_process.h"

#include <tapehead/core/version.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

using namespace tapehead;
using Folder = tests::WorkFolder;
using tests::Arguments;
using tests::check_refused;
using tests::contains;
using tests::content;
using tests::Finished;
using tests::losses;
using tests::resume;
using tests::run;
using tests::sample_text;
using tests::Stdout;
using tests::train;

namespace fs = std::filesystem;

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

// ---- the command line ---------------------------------------------------------------------------

TEST_CASE("--version prints the version and nothing else") {
  const Folder folder;
  const Finished finished = run(folder, {"--version"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.err.empty());
  const auto digits = [](int number) { return std::to_string(number); };
  CHECK(finished.out == "tapehead " + digits(version() / 10000) + "." +
                            digits(version() / 100 % 100) + "." + digits(version() % 100) + "\n");
}

TEST_CASE("a filter or a folder that is empty is refused, not taken for all or for this folder") {
  const Folder folder;
  const std::string text = folder.write("text.txt", sample_text());
  check_refused(folder, {"cases", folder / "any.json", "--only", ""},
                "--only: the pattern is empty");
  check_refused(folder, {"lecture", "--only", ""}, "--only: the pattern is empty");
  for (const std::string option : {"--checkpoint", "--recompute", "--fuse"})
    check_refused(folder, {"graph", "whatif", folder / "any.json", option, ""},
                  option + ": the pattern is empty");
  for (const Arguments& command : {Arguments{"sample"}, {"maps", "--text", "x"}}) {
    Arguments all = command;
    all.insert(all.end(), {"--model", ""});
    check_refused(folder, all, "--model: it must name a folder");
  }
  check_refused(folder, train(text, "", {"--steps", "1"}), "--out: it must name a folder");
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
          "--layers 1000000000000 --dim 128 --context 112 --batch 8");
  refused({"--layers", "9223372036854775807"}, " 9,223,372,036,854,775,807 (8.00 EiB), and this ");
  refused({"--dim", "10000000"}, "a step needs at least ");
  refused({"--dim", "1000000000"},
          "--dim 1000000000 --context 112 --batch 8: a tensor of such a model has ");
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

// ---- cases --------------------------------------------------------------------------------------

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
