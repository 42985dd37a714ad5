// Graphs as files and as text (tools/graph).
#include "support/checks.h"
#include "support/folder.h"
#include "support/values.h"

#include <tapehead/core/count.h>
#include <tapehead/core/tape.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/module_tree.h>
#include <tapehead/graph/text.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/views.h>

#include <cmath>
#include <limits>
#include <sstream>

using namespace tapehead;
using tests::check_throws;
using tests::count;
using tests::infinity;

namespace {

// A leaf and one operation that keeps its result.
Graph small_graph() {
  Graph graph;
  graph.storages = {{16, Category::parameter}, {32, Category::saved}};
  graph.values = {{"w", DType::f32, {2, 2}, {2, 1}, 0, 0, -1, true},
                  {"", DType::f32, {2, 4}, {4, 1}, 0, 1, 0, false}};
  graph.nodes = {{"relu", "a.b", {}, {0}, 1, 5}};
  graph.saved = {{0, "y", "dx = g where y > 0", {0}, 1}};
  return graph;
}

Graph with_attribute(std::variant<bool, std::int64_t, double, std::string> value) {
  Graph graph = small_graph();
  graph.nodes[0].attributes = {{"p", std::move(value)}};
  return graph;
}

Graph there_and_back(const Graph& graph) { return graph::from_json(graph::to_json(graph)); }

// A chain of operations, each of which keeps its result.
Graph chain(std::int64_t length) {
  Graph graph;
  for (std::int64_t i = 0; i <= length; ++i) {
    graph.storages.push_back({64, i == 0 ? Category::parameter : Category::saved});
    graph.values.push_back({"", DType::f32, {16}, {1}, 0, i, i - 1, i == 0});
  }
  for (std::int64_t i = 0; i < length; ++i) {
    graph.nodes.push_back({"exp", "body", {}, {i}, i + 1, 0});
    graph.saved.push_back({i, "y", "dx = g * y", {0}, i + 1});
  }
  return graph;
}

// Records slots of a made-up model, for tables.
struct Drawing {
  Graph graph;
  std::int64_t storage(std::int64_t bytes, Category category = Category::saved) {
    graph.storages.push_back({bytes, category});
    return static_cast<std::int64_t>(graph.storages.size()) - 1;
  }
  void keep(const std::string& module, std::int64_t storage) {
    const auto id = static_cast<std::int64_t>(graph.values.size());
    const std::int64_t size = graph.storages[static_cast<std::size_t>(storage)].bytes / 4;
    graph.values.push_back({"", DType::f32, {size}, {1}, 0, storage, -1, false});
    graph.nodes.push_back({"op", module, {}, {id}, id, 0});
    graph.saved.push_back({static_cast<std::int64_t>(graph.nodes.size()) - 1, "x", "", {0}, id});
  }
};

struct GptStep {
  Graph graph;
  std::int64_t freed = 0;  // live bytes before the tape was destroyed minus after
};

// One forward pass of a small Gpt, with no handle held but the tape's own.
GptStep record_gpt() {
  const nn::Gpt model({.vocab_size = 11, .context = 8, .layers = 3, .heads = 2, .dim = 16});
  const std::vector<std::int64_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  const Tensor tokens = from_vector(text, {2, 8}), targets = from_vector(text, {16});
  GptStep step;
  std::int64_t before = 0;
  {
    Tape tape;
    (void)cross_entropy(reshape(model(tokens), {-1, 11}), targets);
    step.graph = tape.graph();
    before = memory_stats().live;
  }
  step.freed = before - memory_stats().live;
  return step;
}

}  // namespace

// ---- JSON ---------------------------------------------------------------------------------------

TEST_CASE(
    "flops are summed apart for the forward pass and what is recomputed, and never overflow") {
  Graph graph;
  graph.nodes.resize(3);
  graph.nodes[0].flops = 5;
  graph.nodes[1].flops = 7;
  graph.nodes[1].recomputed = true;
  graph.nodes[2].flops = 6;
  CHECK(graph.forward_flops() == 11);
  CHECK(graph.recomputed_flops() == 7);
  graph.nodes[2].flops = largest_count;
  CHECK(graph.forward_flops() == largest_count);
  CHECK(graph.recomputed_flops() == 7);
}

TEST_CASE("a graph reads back equal") {
  CHECK(there_and_back(small_graph()) == small_graph());
  CHECK(there_and_back(Graph{}) == Graph{});
  const Graph gpt = record_gpt().graph;
  CHECK(gpt.nodes.size() > 20);
  CHECK(there_and_back(gpt) == gpt);
}

TEST_CASE("a graph file has the bytes that its documentation says") {
  CHECK(graph::to_json(small_graph()) ==
        R"({"format": "tapehead-graph/1",
"nodes": [
{"attributes": [], "flops": 5, "id": 0, "inputs": [0], "module": "a.b", "operation": "relu", "output": 1}
],
"saved": [
{"for_inputs": [0], "id": 0, "node": 0, "reason": "dx = g where y > 0", "slot": "y", "value": 1}
],
"storages": [
{"bytes": 16, "category": "parameter", "id": 0},
{"bytes": 32, "category": "saved", "id": 1}
],
"values": [
{"dtype": "f32", "id": 0, "leaf": true, "name": "w", "offset": 0, "producer": null, "shape": [2, 2], "storage": 0, "strides": [2, 1]},
{"dtype": "f32", "id": 1, "leaf": false, "name": "", "offset": 0, "producer": 0, "shape": [2, 4], "storage": 1, "strides": [4, 1]}
]}
)");
}

TEST_CASE("two recordings of one model give the same bytes") {
  CHECK(graph::to_json(record_gpt().graph) == graph::to_json(record_gpt().graph));
}

TEST_CASE("JSON-1: infinities and NaN are strings, and the sign of zero stays") {
  CHECK(count(graph::to_json(with_attribute(infinity)), R"("type": "float", "value": "inf"})") ==
        1);
  CHECK(count(graph::to_json(with_attribute(-infinity)), R"("value": "-inf"})") == 1);
  CHECK(count(graph::to_json(with_attribute(std::nan(""))), R"("value": "nan"})") == 1);
  CHECK(there_and_back(with_attribute(infinity)) == with_attribute(infinity));
  CHECK(there_and_back(with_attribute(-infinity)) == with_attribute(-infinity));
  CHECK(std::isnan(
      std::get<double>(there_and_back(with_attribute(std::nan(""))).nodes[0].attributes[0].value)));
  CHECK(std::signbit(
      std::get<double>(there_and_back(with_attribute(-0.0)).nodes[0].attributes[0].value)));
}

TEST_CASE("JSON-2: any name comes back, and bytes that are not UTF-8 are replaced") {
  for (const std::string name :
       {"a\"b\\c\n\t\x01", "\xc3\xa9 \xe5\xb1\xa4 \xf0\x9f\x98\x80", "</script>", ""}) {
    Graph graph = small_graph();
    graph.values[0].name = graph.nodes[0].module = graph.saved[0].reason = name;
    CHECK(there_and_back(graph) == graph);
  }
  Graph graph = small_graph();
  graph.values[0].name = std::string(10240, 'x');
  CHECK(there_and_back(graph) == graph);
  graph.values[0].name =
      "a\xff"
      "b";
  CHECK(there_and_back(graph).values[0].name ==
        "a\xef\xbf\xbd"
        "b");
}

TEST_CASE("JSON-3: a chain of 10^5 operations is written and read in linear time, each once") {
  const Graph long_chain = chain(100'000);
  const std::string text = graph::to_json(long_chain);
  CHECK(count(text, "\"operation\"") == 100'000);
  CHECK(graph::from_json(text) == long_chain);
}

TEST_CASE("JSON-4: numbers survive to the last bit, and their type with them") {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 3.4028235e38, double{0.1f}, 3.0, -2.5e-300})
    CHECK(there_and_back(with_attribute(value)) == with_attribute(value));
  for (const std::int64_t value :
       {std::int64_t{9007199254740993}, std::int64_t{16777217},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
    CHECK(there_and_back(with_attribute(value)) == with_attribute(value));
  CHECK(there_and_back(with_attribute(true)) == with_attribute(true));
  CHECK(there_and_back(with_attribute(std::string("inf"))) == with_attribute(std::string("inf")));
}

TEST_CASE("a graph file is written whole or not at all") {
  const tests::Folder folder;
  graph::write_json(small_graph(), folder.file());
  CHECK(graph::read_json(folder.file()) == small_graph());
  CHECK(folder.size() == 1);  // no temporary file is left
  check_throws(ErrorKind::io, {"missing"},
               [&] { graph::write_json(small_graph(), folder.file("missing") / "graph.json"); });
  check_throws(ErrorKind::io, {"missing.json"},
               [&] { (void)graph::read_json(folder.file("missing.json")); });
  check_throws(ErrorKind::io, {"directory"},
               [&] { (void)graph::read_json(folder.file().parent_path()); });
}

TEST_CASE("a stream that fails is an error") {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  check_throws(ErrorKind::io, {"stream"}, [&] { graph::write_json(small_graph(), out); });
  std::stringstream both;
  graph::write_json(small_graph(), both);
  CHECK(graph::read_json(both) == small_graph());
}

TEST_CASE("a malformed graph file is an error that says where") {
  const std::string good = graph::to_json(small_graph());
  const auto broken = [&](const std::string& from, const std::string& to, const std::string& why) {
    INFO(from, " -> ", to);
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    check_throws(ErrorKind::value, {"f.json: " + why},
                 [&] { (void)graph::from_json(text, "f.json"); });
  };
  broken("graph/1", "graph/2", "the format is not");
  broken("}\n", std::string("}\0rest\n", 7), "not JSON: byte ");
  broken("\"saved\"", "\"saves\"", "the key \"saves\" is not one");
  broken("\"saved\": [", "\"nodes\": [", "nodes stands there twice");
  broken("\"flops\": 5, ", "", "row 0 of nodes: flops is missing");
  broken("\"flops\": 5", "\"flops\": 5.5", "row 0 of nodes: flops is not a 64-bit integer");
  broken("\"flops\": 5", "\"flops\": 9223372036854775808",
         "row 0 of nodes: flops is not a 64-bit integer");
  broken("\"flops\": 5", "\"flops\": 1e400",
         "row 0 of nodes: a number is beyond float64: number overflow parsing '1e400'");
  broken("\"flops\": 5", "\"flops\": -5", "row 0 of nodes: a count is negative");
  broken("\"flops\": 5", "\"flops\": 5, \"more\": 1", "row 0 of nodes: the row has a key");
  broken("\"inputs\": [0]", "\"inputs\": [2]", "row 0 of nodes: inputs names no row of values");
  broken("\"inputs\": [0]", "\"inputs\": [1]",
         "row 0 of nodes: inputs names a value that this node or a later one makes");
  broken("\"flops\"", "\"donatable\": [1], \"flops\"",
         "row 0 of nodes: donatable names no input of the node");
  broken("\"output\": 1", "\"output\": -1", "row 0 of nodes: output names no row of values");
  broken("\"value\": 1", "\"value\": 9", "row 0 of saved: value names no row");
  broken("\"node\": 0", "\"node\": 1", "row 0 of saved: node names no row");
  broken("\"for_inputs\": [0]", "\"for_inputs\": [1]", "row 0 of saved: for_inputs names no input");
  broken("\"id\": 0", "\"id\": 1", "row 0 of nodes: id is not the row's number");
  broken("\"saved\", \"id\": 1", "\"saver\", \"id\": 1", "row 1 of storages: category is not one");
  broken("\"bytes\": 16", "\"bytes\": 12",
         "row 0 of values: the window reaches outside its storage");
  broken("\"bytes\": 16", "\"bytes\": 9223372036854775807", "row 1 of storages: the counts add up");
  broken("[2, 2]", "[2, 2, 2]", "row 0 of values: shape and strides differ in length");
  broken("[2, 2]", "[-2, 2]", "row 0 of values: shape has a negative size");
  broken("[2, 2]", "[4611686018427387904, 4]", "row 0 of values: shape has more bytes");
  broken("\"strides\": [2, 1]", "\"strides\": [-9223372036854775808, 1]",
         "row 0 of values: the window reaches");
  broken("\"f32\"", "\"f8\"", "row 0 of values: dtype is not one");
  broken("[2, 2]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
         "row 0 of values: shape has more than 16");
}

TEST_CASE("every truncation of a graph file is an error, never a crash") {
  const std::string good = graph::to_json(with_attribute(0.5));
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    INFO(length);
    CHECK_THROWS_AS((void)graph::from_json(std::string_view(good).substr(0, length)), ValueError);
  }
}

TEST_CASE("every changed byte of a graph file gives a graph or an error, never a crash") {
  const std::string good = graph::to_json(with_attribute(0.5));
  int refused = 0, accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char byte : {'\0', '"', '[', '}', '9', '-', '\xff'}) {
      std::string text = good;
      text[at] = byte;
      const auto thrown =
          tests::thrown_by([&] { (void)graph::saved_table(graph::from_json(text)); });
      ++(thrown ? refused : accepted);
      if (thrown && thrown->kind != ErrorKind::value) FAIL_CHECK(thrown->text);
    }
  }
  CHECK(refused > accepted);  // most bytes are part of a name or of the structure
  CHECK(accepted > 0);        // as in a number
}

TEST_CASE("deep nesting in a graph file does not overflow the stack") {
  const std::string deep(1'000'000, '[');
  CHECK_THROWS_AS((void)graph::from_json(deep), ValueError);
  CHECK_THROWS_AS(
      (void)graph::from_json(R"({"format": "tapehead-graph/1", "nodes": [{"attributes": )" + deep),
      ValueError);
}

// ---- the saved table ----------------------------------------------------------------------------

TEST_CASE("the saved bytes of a Gpt are what its tape frees, and what its table totals") {
  const GptStep step = record_gpt();
  CHECK(step.graph.saved_activation_bytes() > 0);
  CHECK(step.freed == step.graph.saved_activation_bytes());
  const graph::ModuleSums all = graph::module_sums(step.graph);
  CHECK(all.activations == step.graph.saved_activation_bytes());
  CHECK(all.activations + all.others == step.graph.saved_bytes());
  CHECK(all.operations == static_cast<std::int64_t>(step.graph.nodes.size()));
}

TEST_CASE("the saved bytes of MultiHeadAttention are what its tape frees") {
  const nn::MultiHeadAttention attention({.embed_dim = 8, .num_heads = 2});
  const Tensor x = from_vector(std::vector<float>(2 * 5 * 8, 0.5f), {2, 5, 8});
  Graph graph;
  std::int64_t before = 0;
  {
    Tape tape;
    (void)attention(x, nn::Mask::causal());
    graph = tape.graph();
    before = memory_stats().live;
  }
  CHECK(graph.saved_activation_bytes() > 0);
  CHECK(before - memory_stats().live == graph.saved_activation_bytes());
  CHECK(graph::module_sums(graph).activations == graph.saved_activation_bytes());
}

TEST_CASE("equal neighbours are folded, and the mask that they share stands with their parent") {
  const std::string table = graph::saved_table(record_gpt().graph);
  INFO(table);
  CHECK(count(table, "0-2 x 3") == 1);
  CHECK(count(table, "self_attn") == 1);
}

TEST_CASE("a storage counts once, in the module that encloses all who keep it") {
  Drawing drawing;
  const std::int64_t own = drawing.storage(400), shared = drawing.storage(1000);
  drawing.keep("net.a", own);
  drawing.keep("net.a", own);
  drawing.keep("net.a.deep", shared);
  drawing.keep("net.b", shared);
  const graph::ModuleSums all = graph::module_sums(drawing.graph);
  REQUIRE(all.children.size() == 1);
  const graph::ModuleSums& net = all.children[0];
  CHECK(net.activations == 1400);
  CHECK(net.operations == 4);
  REQUIRE(net.children.size() == 2);
  CHECK(net.children[0].activations == 400);
  CHECK(net.children[1].activations == 0);
}

TEST_CASE("parameters and inputs are counted apart from activations") {
  Drawing drawing;
  drawing.keep("a", drawing.storage(100, Category::parameter));
  drawing.keep("a", drawing.storage(20, Category::input));
  drawing.keep("a", drawing.storage(4));
  const graph::ModuleSums all = graph::module_sums(drawing.graph);
  CHECK(all.activations == 4);
  CHECK(all.others == 120);
}

TEST_CASE("neighbours fold only when their numbers follow and all else is equal") {
  Drawing drawing;
  for (const int i : {0, 1, 3, 4, 5})
    drawing.keep("l." + std::to_string(i), drawing.storage(i == 5 ? 8 : 4));
  drawing.keep("l.x", drawing.storage(4));
  const graph::ModuleSums l = graph::folded(graph::module_sums(drawing.graph)).children[0];
  std::vector<std::string> names;
  for (const graph::ModuleSums& child : l.children) names.push_back(child.name);
  CHECK(names == std::vector<std::string>{"0-1", "3-4", "5", "x"});
  CHECK(l.children[0].repeats == 2);
  CHECK(l.children[0].activations == 8);
  CHECK(l.activations == 28);
}

TEST_CASE("the saved table has the bytes that its documentation says") {
  Drawing drawing;
  for (int i = 0; i < 2; ++i) {
    const std::string block = "blocks." + std::to_string(i);
    drawing.keep(block + ".norm", drawing.storage(1 << 20));
    drawing.keep(block + ".attn", drawing.storage(3 << 20));
  }
  drawing.keep("head", drawing.storage(4096, Category::parameter));
  drawing.keep("", drawing.storage(1000));
  CHECK(graph::saved_table(drawing.graph) ==
        "module                           ops            saved activations   share   "
        "saved parameters, inputs\n"
        "------------------------------------------------------------------------------------------"
        "----------\n"
        "(root)                             1                        1,000   0.0 %                 "
        "         0\n"
        "blocks.0-1 x 2                     4         8,388,608 (8.00 MiB) 100.0 %                 "
        "         0\n"
        "  norm                             2         2,097,152 (2.00 MiB)  25.0 %                 "
        "         0\n"
        "  attn                             2         6,291,456 (6.00 MiB)  75.0 %                 "
        "         0\n"
        "head                               1                            0   0.0 %           4,096 "
        "(4.00 KiB)\n"
        "------------------------------------------------------------------------------------------"
        "----------\n"
        "total                              6         8,389,608 (8.00 MiB) 100.0 %           4,096 "
        "(4.00 KiB)\n");
}

TEST_CASE("the saved table tells of packings that it counts: each once, none of recomputed nodes") {
  Drawing drawing;
  drawing.graph.packings = {{"bf16", 300}, {"bf16", 40}, {"disk", 5}};
  for (const std::int64_t packing : {0, 0, 1, 2}) {
    drawing.keep("net", drawing.storage(1000));
    drawing.graph.saved.back().packing = packing;
  }
  for (const std::size_t node : {2U, 3U}) drawing.graph.nodes[node].recomputed = true;
  CHECK(graph::module_sums(drawing.graph).activations == 300);
  const std::string table = graph::saved_table(drawing.graph);
  INFO(table);
  CHECK(count(table, "packed as bf16: 1 tensors, 300\n") == 1);
  CHECK(count(table, "packed as") == 1);
}

TEST_CASE("a module has a line for what lies in none of its children, or in several") {
  Drawing drawing;
  const std::int64_t shared = drawing.storage(64);
  for (const int i : {0, 1}) {
    const std::string block = "blocks." + std::to_string(i);
    drawing.keep(block, drawing.storage(20));
    drawing.keep(block, drawing.storage(4, Category::parameter));
    drawing.keep(block + ".norm", drawing.storage(8));
    drawing.keep(block + ".ff", shared);
  }
  std::vector<std::string> lines;
  for (const graph::ModuleRow& row :
       graph::table_rows(graph::folded(graph::module_sums(drawing.graph))))
    lines.push_back(row.label + ": " + std::to_string(row.sums.operations) + " " +
                    std::to_string(row.sums.activations) + " " + std::to_string(row.sums.others));
  CHECK(lines == std::vector<std::string>{"blocks: 8 120 8", "  (own): 0 64 0", "  0-1 x 2: 8 56 8",
                                          "    (own): 4 40 8", "    norm: 2 16 0",
                                          "    ff: 2 0 0"});
}

TEST_CASE("a table stays within 100 columns, and within the stack, whatever the names") {
  Drawing drawing;
  std::string path;
  for (int i = 0; i < 100'000; ++i) path += "m.";
  drawing.keep(path, drawing.storage(1 << 30));
  drawing.keep(std::string(5000, 'n'), drawing.storage(1));
  drawing.keep("line\nbreak\x1b[31m\xff", drawing.storage(1));
  std::istringstream lines(graph::saved_table(drawing.graph));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(count(graph::saved_table(drawing.graph), "line?break?[31m?") == 1);
}

TEST_CASE("numbers are written in full, with separators and binary units") {
  CHECK(graph::format_count(0) == "0");
  CHECK(graph::format_count(-1234567) == "-1,234,567");
  CHECK(graph::format_count(std::numeric_limits<std::int64_t>::min()) ==
        "-9,223,372,036,854,775,808");
  CHECK(graph::format_bytes(1023) == "1,023");
  CHECK(graph::format_bytes(1024) == "1,024 (1.00 KiB)");
  CHECK(graph::format_bytes(1048575) == "1,048,575 (1.00 MiB)");
  CHECK(graph::format_bytes(1234567) == "1,234,567 (1.18 MiB)");
}

TEST_CASE("a label that is too long loses its middle, never half a character") {
  CHECK(graph::fit_label("short", 5) == "short");
  CHECK(graph::fit_label("abcdefghij", 8) == "abc...ij");
  CHECK(graph::fit_label("\xe5\xb1\xa4\xe5\xb1\xa4\xe5\xb1\xa4\xe5\xb1\xa4\xe5\xb1\xa4", 4) ==
        "\xe5\xb1\xa4...");
}
