// Graph files against tools/graph/tapehead-graph-1.schema.json, by a validator that is not ours:
// Debian's python3-jsonschema.
#include "support/checks.h"
#include "support/folder.h"
#include "support/training_steps.h"

#include <tapehead/core/ledger.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/json.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/softmax.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace tapehead::tests {
namespace {

// Files that one process validates, for it takes a fifth of a second to start.
class Files {
 public:
  std::string add(const std::string& name, const Graph& graph) {
    const std::string file = expect(name, true);
    graph::write_json(graph, file);
    return file;
  }
  std::string add(const std::string& name, const nlohmann::json& json, bool is_valid) {
    const std::string file = expect(name, is_valid);
    std::ofstream(file) << json;
    return file;
  }
  void check() const {
    // jsonschema is a package of Debian's python3, which another one on the PATH does not have.
    std::string command = "/usr/bin/python3 -W ignore -m jsonschema --output pretty";
    for (const auto& [file, is_valid] : expected_) command += " -i '" + file + "'";
    const std::string report = folder_.file("report.txt").string();
    command += " '" TAPEHEAD_SOURCE_DIR "/tools/graph/tapehead-graph-1.schema.json' > '";
    CHECK(std::system((command + report + "' 2>&1").c_str()) != -1);
    const std::string said = io::read_file("test", report);
    for (const auto& [name, is_valid] : expected_) {
      const std::string file = name;  // a structured binding is not for CAPTURE, in clang 14
      CAPTURE(file);
      CHECK(contains(said, "[SUCCESS]===(" + file + ")") == is_valid);
      CHECK(contains(said, "[ValidationError]===(" + file + ")") != is_valid);
    }
  }

 private:
  std::string expect(const std::string& name, bool is_valid) {
    const std::string file = folder_.file((name + ".json").c_str()).string();
    REQUIRE(expected_.emplace(file, is_valid).second);
    return file;
  }

  Folder folder_;
  std::map<std::string, bool> expected_;
};

// Packed slots, numbers that JSON has no word for, odd names.
Graph odd_graph() {
  return watch([] {
    const ModuleScope scope("naïve \"block\"\n");
    Tensor w = parameter(ones({2, 3}));
    w.set_name("\xff no UTF-8");
    const nn::KeepInBf16 hooks;
    Tape tape;
    const Tensor hidden =
        masked_fill(w, zeros({3}, DType::boolean), -std::numeric_limits<double>::infinity());
    const Tensor y = softmax(mul(hidden, std::numeric_limits<double>::quiet_NaN()), -1);
    tape.gradient(y, {w}, ones({2, 3}));
  });
}

}  // namespace

TEST_CASE("graph files are valid by their schema: training steps, checkpoints, odd names") {
  Files files;
  files.add("empty", Graph{});
  files.add("attention", attention_step());
  files.add("fused", attention_step({.path = nn::AttentionPath::fused, .dropout = 0.1}));
  files.add("encoder", encoder_step({.norm_first = true}));
  files.add("gpt", gpt_step({.dropout = 0.1, .checkpointed = true}));
  files.add("odd", odd_graph());
  files.check();
}

TEST_CASE("the schema knows each field: files without one, or with one more, are not valid") {
  Files files;
  const nlohmann::json whole = nlohmann::json::parse(graph::to_json(attention_step()));
  files.add("whole", whole, true);
  for (const auto& [key, rows] : whole.items()) {
    nlohmann::json changed = whole;
    changed.erase(key);
    const bool is_of_ledger = key == "steps" || key == "events" || key == "live_before";
    files.add("without " + key, changed, is_of_ledger);  // a tape's own graph has none of these
    if (!rows.is_array() || rows.empty()) continue;
    changed = whole;
    changed[key][0]["surplus"] = 1;
    files.add("more in " + key, changed, false);
  }
  nlohmann::json surplus = whole;
  surplus["surplus"] = 1;
  files.add("more", surplus, false);
  files.check();
}

TEST_CASE("what is missing is null or left out: -1 is refused by the schema and by the reader") {
  Files files;
  const nlohmann::json whole = nlohmann::json::parse(graph::to_json(attention_step()));
  for (const auto& [table, name] :
       {std::pair{"values", "producer"}, {"steps", "node"}, {"saved", "packing"}}) {
    const std::string key = name;
    CAPTURE(key);
    nlohmann::json changed = whole;
    changed[table][0][key] = -1;
    const std::string file = files.add(key, changed, false);
    check_throws(ErrorKind::value, {key + " is negative"}, [&] { (void)graph::read_json(file); });
  }
  files.check();
}

}  // namespace tapehead::tests
