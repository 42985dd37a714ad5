// What-if questions on the command line.
#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/training_steps.h"

#include <tapehead/graph/json.h>
#include <tapehead/graph/whatif.h>
#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

using namespace tapehead;
using namespace tapehead::tests;

TEST_CASE("tapehead graph whatif prints the change, and writes the graph that would be") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  const std::string graph_file = folder.file("graph").string();
  const Graph gpt = gpt_step(), then = graph::checkpointed(gpt, "layers.*");
  graph::write_json(gpt, folder.file("step.json"));
  const auto run = [&](const std::string& options) {
    return run_program("graph whatif " + file + " " + options + " > " + out + " 2>&1");
  };
  CHECK(run("--checkpoint 'layers.*' --graph " + graph_file) == 0);
  CHECK(io::read_file("test", out) ==
        graph::what_if_text(gpt, then, graph::checkpoint_matches(gpt, "layers.*")));
  CHECK(graph::read_json(folder.file("graph")) == then);
  CHECK(run("--fuse '*' --json") == 0);
  const nlohmann::json report = nlohmann::json::parse(io::read_file("test", out));
  const nlohmann::json& saved = report["saved_activation_bytes"];
  CHECK(saved["now"] == gpt.saved_activation_bytes());
  CHECK(saved["then"].get<std::int64_t>() - saved["now"].get<std::int64_t>() ==
        saved["difference"]);
  CHECK(report["matched"][1]["name"] == "layers.1.self_attn");
  CHECK(run("--recompute '*gelu.x' --recompute 'layers.0.norm? *.x'") == 0);
  CHECK(io::read_file("test", out).find("matched: 4\n") != std::string::npos);
  CHECK(run("--recompute '*gelu.x' --recompute nothing") == 2);
  CHECK(run("--recompute '*'") == 0);
  CHECK(contains(io::read_file("test", out), "\nleft as they are: "));
  CHECK(run("--fuse layers.0 --fuse layers.1") == 0);
  CHECK(contains(io::read_file("test", out), "matched: 2\n"));
  CHECK(run("--checkpoint nothing") == 2);
  CHECK(run("--checkpoint layers.0 --checkpoint layers.0.self_attn") == 0);
  CHECK(contains(io::read_file("test", out),
                 "layers.0.self_attn: is already inside the checkpoint layers.0\n"));
  CHECK(run("--fuse '*' --checkpoint '*'") == 2);
  CHECK(run("--fuse '*' --graph same.json -o ./same.json") == 2);
}

TEST_CASE("tapehead graph whatif says in one line which change is missing, or which is unknown") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  graph::write_json(attention_step(), folder.file("step.json"));
  const auto complaint = [&](const std::string& options) {
    CHECK(run_program("graph whatif " + options + " 2> " + out) == 2);
    return io::read_file("test", out);
  };
  CHECK(complaint(file) ==
        "tapehead: graph whatif: give one of --checkpoint, --recompute, --fuse\n");
  CHECK(contains(complaint(file + " --fuse ''"), "--fuse: the pattern is empty"));
  CHECK(contains(complaint(file + " --fuse a b"), "not expected: b"));
  CHECK(run_program("graph whatif --help > " + out) == 0);
  CHECK_FALSE(contains(io::read_file("test", out), "..."));
  CHECK(complaint(file + " --fuse '*' --checkpoint '*'") == complaint(file));
  for (const std::string& options : {file + " --fused '*'", "--fused '*' " + file}) {
    CHECK(contains(complaint(options), "--fused"));
    CHECK_FALSE(contains(complaint(options), "command"));
  }
  CHECK(contains(complaint("--fuse '*'"), "FILE is required"));
}

TEST_CASE("tapehead graph refuses to write over what it reads") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  const std::string link = folder.file("link.json").string();
  graph::write_json(attention_step(), folder.file("step.json"));
  graph::write_json(attention_step(), folder.file("other.json"));
  std::filesystem::create_symlink(file, link);
  const std::string before = io::read_file("test", file);
  const std::string other = folder.file("other.json").string();
  for (const std::string arguments :
       {"summary FILE", "saved FILE", "timeline FILE", "peak FILE", "flops FILE", "dot FILE",
        "trace FILE", "diff FILE OTHER", "diff OTHER FILE", "lint FILE", "assert FILE 'peak > 0'",
        "whatif FILE --fuse '*'", "html FILE", "html OTHER --diff FILE",
        "html OTHER --attention FILE", "whatif FILE --fuse '*' --graph"}) {
    const std::string named = std::regex_replace(
        std::regex_replace(arguments, std::regex("FILE"), file), std::regex("OTHER"), other);
    const std::string option = named.ends_with("--graph") ? " " : " -o ";
    for (const std::string& written : {file, link}) {
      CAPTURE(named);
      CHECK(run_program("graph " + named + option + written + " 2> " + out) == 2);
      const std::string said = io::read_file("test", out);
      CHECK(contains(said, written + " is a file that is read; write to another one\n"));
      CHECK(std::ranges::count(said, '\n') == 1);
      CHECK(io::read_file("test", file) == before);
    }
  }
}
