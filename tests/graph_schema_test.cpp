// Graph files against tools/graph/tapehead-graph-1.schema.json, by a validator that is not ours:
// Debian's python3-jsonschema.
#include "support/checks.h"
#include "support/folder.h"
#include "support/training_steps.h"

#include <tapehead/core/ledger.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/json.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/softmax.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace tapehead::tests {
namespace {

bool is_valid(const std::filesystem::path& file) {
  const std::string command = "/usr/bin/python3 -W ignore -m jsonschema -i '" + file.string() +
                              "' '" TAPEHEAD_SOURCE_DIR
                              "/tools/graph/tapehead-graph-1.schema.json' > /dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

bool is_valid(const Graph& graph) {
  const Folder folder;
  graph::write_json(graph, folder.file("graph.json"));
  return is_valid(folder.file("graph.json"));
}

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
  CHECK(is_valid(Graph{}));
  CHECK(is_valid(attention_step()));
  CHECK(is_valid(attention_step({.path = nn::AttentionPath::fused, .dropout = 0.1})));
  CHECK(is_valid(encoder_step({.norm_first = true})));
  CHECK(is_valid(gpt_step({.dropout = 0.1, .checkpointed = true})));
  CHECK(is_valid(odd_graph()));
}

TEST_CASE("the schema knows each field: files without one, or with one more, are not valid") {
  const Folder folder;
  const std::filesystem::path file = folder.file("graph.json");
  const auto is_valid_json = [&](const nlohmann::json& json) {
    std::ofstream(file) << json;
    return is_valid(file);
  };
  const nlohmann::json whole = nlohmann::json::parse(graph::to_json(attention_step()));
  REQUIRE(is_valid_json(whole));
  for (const auto& [name, rows] : whole.items()) {
    const std::string key = name;  // a structured binding is not for CAPTURE, in clang 14
    CAPTURE(key);
    nlohmann::json changed = whole;
    changed.erase(key);
    const bool is_of_ledger = key == "steps" || key == "events" || key == "live_before";
    CHECK(is_valid_json(changed) == is_of_ledger);  // a tape's own graph has none of these
    if (!rows.is_array() || rows.empty()) continue;
    changed = whole;
    changed[key][0]["surplus"] = 1;
    CHECK_FALSE(is_valid_json(changed));
  }
  nlohmann::json surplus = whole;
  surplus["surplus"] = 1;
  CHECK_FALSE(is_valid_json(surplus));
}

TEST_CASE("what is missing is null or left out: -1 is refused by the schema and by the reader") {
  const Folder folder;
  const std::filesystem::path file = folder.file("graph.json");
  const nlohmann::json whole = nlohmann::json::parse(graph::to_json(attention_step()));
  for (const auto& [table, name] :
       {std::pair{"values", "producer"}, {"steps", "node"}, {"saved", "packing"}}) {
    const std::string key = name;
    CAPTURE(key);
    nlohmann::json changed = whole;
    changed[table][0][key] = -1;
    std::ofstream(file) << changed;
    CHECK_FALSE(is_valid(file));
    check_throws(ErrorKind::value, {std::string(key) + " is negative"},
                 [&] { (void)graph::read_json(file); });
  }
}

}  // namespace tapehead::tests
