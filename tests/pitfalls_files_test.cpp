// Faults in files that users of other frameworks met: on the graphs of real tapes here, on graphs
// written by hand in graph_test.cpp. A fault has an id, which opens the names of its tests. NPY-1,
// NPY-2 and NPY-3 are void: npy files are neither read nor written.
#include "support/checks.h"
#include "support/folder.h"
#include "support/process.h"
#include "support/values.h"

#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/json.h>
#include <tapehead/nn/safetensors.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/pointwise.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

using namespace tapehead;
using tests::check_throws;
using tests::infinity;
using tests::not_a_number;

namespace {

// Names that break careless writers; all valid UTF-8.
const std::vector<std::string> odd_names = {"a\"b\\c",
                                            "line\nbreak",
                                            "tab\there",
                                            "\x01",
                                            "\xC3\xA9",
                                            "\xE5\xB1\xA4",
                                            "\xF0\x9F\x98\x80",
                                            "</script>",
                                            std::string(10240, 'x'),
                                            std::string("nul\0inside", 10),
                                            "\x7F",
                                            "x/y",
                                            ""};

// A strict reader that is not ours: throws at bare NaN, raw control characters and bad UTF-8.
nlohmann::json strictly(const std::string& text) { return nlohmann::json::parse(text); }

// The attribute "value" of the first node of `graph`, as the file holds it.
nlohmann::json first_value(const Graph& graph) {
  return strictly(graph::to_json(graph))["nodes"][0]["attributes"][0]["value"];
}

Graph graph_of(double factor) {
  Tape tape;
  const Tensor x = parameter(ones({1})), y = x * factor;
  return tape.graph();
}

Graph graph_of(std::int64_t value) {
  Graph graph = graph_of(1.0);
  graph.nodes[0].attributes = {{"value", value}};
  return graph;
}

Graph chain_of(int length) {
  const Tensor x = parameter(ones({}));
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y + 1.0;
  return tape.graph();
}

}  // namespace

// ---- safetensors --------------------------------------------------------------------------------

TEST_CASE("ST-5: odd names of tensors and of metadata come back byte for byte") {
  nn::StateDict written;
  nn::Metadata metadata;
  for (const std::string& name : odd_names) {
    written.push_back({name, full({2}, static_cast<double>(written.size()))});
    metadata[name] = name;
  }
  const tests::Folder folder;
  nn::save_safetensors(folder.file(), written, metadata);
  const nn::Safetensors read = nn::load_safetensors(folder.file());
  CHECK(read.metadata == metadata);
  REQUIRE(read.tensors.size() == written.size());
  for (const nn::NamedTensor& was : written) {
    const auto is =
        std::find_if(read.tensors.begin(), read.tensors.end(),
                     [&](const nn::NamedTensor& entry) { return entry.name == was.name; });
    REQUIRE(is != read.tensors.end());
    CHECK(equal(is->tensor, was.tensor));
  }
}

TEST_CASE(
    "ST-5: no tensors, a tensor without elements and one without dims are legal, written or read") {
  const tests::Folder folder;
  nn::save_safetensors(folder.file("none"), {});
  CHECK(nn::load_safetensors(folder.file("none")).tensors.empty());
  nn::save_safetensors(
      folder.file(),
      {{"empty", zeros({0})}, {"also", zeros({3, 0, 2})}, {"scalar", full({}, 2.5)}});
  const nn::StateDict read = nn::load_safetensors(folder.file()).tensors;
  REQUIRE(read.size() == 3);
  for (const nn::NamedTensor& entry : read) {
    if (entry.name == "empty") CHECK(entry.tensor.shape() == Shape{0});
    if (entry.name == "also") CHECK(entry.tensor.shape() == Shape{3, 0, 2});
    if (entry.name == "scalar") CHECK(equal(entry.tensor, full({}, 2.5)));
  }
}

// ---- graphs as JSON -----------------------------------------------------------------------------

TEST_CASE(
    "JSON-1: a tape that met NaN, infinities and -0 gives a file that a strict reader takes") {
  const Tensor x = parameter(ones({5})),
               wild = tensor({1, not_a_number, infinity, -infinity, -0.0});
  {
    Tape tape;
    const Tensor y = x * wild;  // saves them; a file holds no values of tensors
    CHECK(tape.graph().saved.size() == 1);
    CHECK_NOTHROW(strictly(graph::to_json(tape.graph())));
  }
  CHECK(first_value(graph_of(1.0)) == 1.0);
  CHECK(first_value(graph_of(not_a_number)) == "nan");
  CHECK(first_value(graph_of(infinity)) == "inf");
  CHECK(first_value(graph_of(-infinity)) == "-inf");
  CHECK(first_value(graph_of(-0.0)).is_number_float());
  CHECK(std::signbit(first_value(graph_of(-0.0)).get<double>()));
}

TEST_CASE("JSON-2: whatever tensors and modules are named, a strict reader finds the same names") {
  for (const std::string& name : odd_names) {
    CAPTURE(name);
    Tensor x = parameter(ones({1}));
    x.set_name(name);
    const ModuleScope scope(name);
    Tape tape;
    const Tensor y = exp(x);
    const std::string text = graph::to_json(tape.graph());
    const nlohmann::json file = strictly(text);
    CHECK(file["nodes"][0]["module"] == name);
    CHECK(file["values"][0]["name"] == name);
    CHECK(graph::from_json(text) == tape.graph());
  }
}

TEST_CASE("JSON-2: bytes that are not UTF-8 are replaced by U+FFFD") {
  for (const std::string bad :
       {"\xFF", "\xC3", "\xE5\xB1", "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80"}) {
    Graph graph = graph_of(1.0);
    graph.values[0].name = "a" + bad + "b";
    const std::string name = strictly(graph::to_json(graph))["values"][0]["name"];
    CHECK(name.starts_with("a\xEF\xBF\xBD"));
    CHECK(name.ends_with("b"));
  }
}

TEST_CASE("JSON-3: the file of a long chain is written on a small stack, each operation once") {
  tests::run_with_small_stack([] {
    const Graph graph = chain_of(100'000);
    CHECK(graph.nodes.size() == 100'000);
    CHECK(graph.values.size() == 100'001);
    std::istringstream lines(graph::to_json(graph));
    std::int64_t operations = 0;
    for (std::string line; std::getline(lines, line);)
      operations += line.find("\"operation\"") != std::string::npos;
    CHECK(operations == 100'000);
  });
}

TEST_CASE("JSON-3: a chain of 60 diamonds gives 60 operations and the leaf, not 2^60 paths") {
  const Tensor x = parameter(ones({}));
  Tape tape;
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;
  const nlohmann::json file = strictly(graph::to_json(tape.graph()));
  CHECK(file["nodes"].size() == 60);
  CHECK(file["values"].size() == 61);
}

TEST_CASE("JSON-3: twice the chain gives twice the file, but for longer numbers") {
  const std::size_t once = graph::to_json(chain_of(10'000)).size();
  const std::size_t twice = graph::to_json(chain_of(20'000)).size();
  CHECK(twice > 2 * once);
  CHECK(10 * twice <
        22 * once);  // ids of five digits instead of four, in a row of some hundred bytes
}

TEST_CASE("JSON-4: numbers come back bit for bit through a strict reader, integers as integers") {
  for (const double value : {double{0.1f}, double{1e-45f}, 1.0 / 3, double{3.4028235e38f}})
    CHECK(first_value(graph_of(value)).get<double>() == value);
  for (const std::int64_t value : {std::int64_t{16777217}, std::int64_t{9007199254740993}}) {
    CHECK(first_value(graph_of(value)).is_number_integer());
    CHECK(first_value(graph_of(value)).get<std::int64_t>() == value);
    CHECK(graph::to_json(graph_of(value)).find("\"value\": " + std::to_string(value) + "}") !=
          std::string::npos);
  }
}
