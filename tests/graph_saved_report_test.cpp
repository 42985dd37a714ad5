// The report of saved slots: what each frees, who keeps it, which are chosen and in which order.
#include "support/checks.h"
#include "support/training_steps.h"

#include <tapehead/graph/assertion.h>
#include <tapehead/graph/internal/at.h>
#include <tapehead/graph/reports.h>
#include <tapehead/graph/saved_report.h>
#include <tapehead/graph/text.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace tapehead;
using graph::at;
using nlohmann::json;
using tests::attention_step;
using tests::check_throws;
using tests::contains;
using tests::encoder_step;
using tests::real_gpt_step;

namespace {

Graph without_slot(Graph graph, std::int64_t index) {
  graph.saved.erase(graph.saved.begin() + index);
  return graph;
}

}  // namespace

TEST_CASE("what a slot frees is what the saved activations lose without it") {
  const std::vector<graph::SavedRow> rows = graph::saved_rows(real_gpt_step());
  REQUIRE(rows.size() == real_gpt_step().saved.size());
  std::int64_t shared = 0;
  for (const graph::SavedRow& row : rows) {
    CAPTURE(real_gpt_step().saved[at(row.index)].slot);
    const Graph less = without_slot(real_gpt_step(), row.index);
    CHECK(real_gpt_step().saved_activation_bytes() - less.saved_activation_bytes() == row.freed);
    CHECK(row.needed <= row.retained);
    shared += row.sharers > 0;
  }
  CHECK(shared > 0);
  CHECK(std::is_sorted(rows.begin(), rows.end(),
                       [](const auto& a, const auto& b) { return a.retained > b.retained; }));
}

TEST_CASE("a slot says whose results lie in the same storage, and in which step that dies") {
  const auto rows = graph::saved_rows(real_gpt_step(), {.operation = "softmax"});
  REQUIRE(rows.size() == 2);
  for (const graph::SavedRow& row : rows) {
    // Masking and softmax worked in place of the scores.
    std::vector<std::string> viewers;
    for (const std::int64_t node : row.viewed_by)
      viewers.push_back(real_gpt_step().nodes[at(node)].operation);
    CHECK(viewers == std::vector<std::string>{"matmul", "masked_fill"});
    CHECK(row.viewers == 2);
    const Graph::Step& last = real_gpt_step().steps[at(row.death)];
    CHECK(last.phase == Graph::Phase::backward);
    CHECK(last.operation == "softmax");
    CHECK(last.node == real_gpt_step().saved[at(row.index)].node);
  }
  for (const graph::SavedRow& row : graph::saved_rows(real_gpt_step(), {.name = "*.norm1.weight"}))
    CHECK(row.death == -1);  // a parameter lives on
  Graph unwatched = real_gpt_step();
  unwatched.events.clear();
  CHECK(graph::saved_rows(unwatched).front().death == -1);
}

TEST_CASE("queries, keys and values are told apart by the rows of the weight that made them") {
  const Graph graph = attention_step();
  const json report = json::parse(graph::saved_json(graph, graph::saved_rows(graph)));
  std::multiset<std::string> makers;
  for (const json& row : report["rows"])
    if (row["operation"] == "matmul") makers.insert(row["made_by"]);
  const std::string weight = " with in_proj_weight";
  CHECK(makers == std::multiset<std::string>{"attn linear#1" + weight + "[0:12]",
                                             "attn linear#2" + weight + "[12:24]",
                                             "attn linear#3" + weight + "[24:36]", "attn softmax"});
  CHECK(contains(graph::saved_text(graph, graph::saved_rows(graph)),
                 "\n    made by: attn linear#2" + weight + "[12:24]\n"));
}

TEST_CASE("a view of a parameter is found and shown by the parameter's name") {
  const Graph graph = encoder_step({.norm_first = true});
  const auto rows = graph::saved_rows(graph, {.name = "*in_proj_weight*"});
  std::vector<std::string> names;
  const json report = json::parse(graph::saved_json(graph, rows));
  for (const json& row : report["rows"]) names.push_back(row["name"]);
  const std::string weight = "self_attn.in_proj_weight";
  CHECK(names ==
        std::vector<std::string>{weight + "[0:12]", weight + "[12:24]", weight + "[24:36]"});
  CHECK(graph::check_assertion(graph, "slots(name=\"*.in_proj_weight[12:24]\") == 1").holds);
}

TEST_CASE("saved rows are chosen by patterns, sharing and equal dims") {
  const auto count = [](const graph::SavedSelection& selection, auto holds) {
    const auto rows = graph::saved_rows(real_gpt_step(), selection);
    CHECK(rows.size() > 0);
    CHECK(rows.size() < real_gpt_step().saved.size());
    for (const graph::SavedRow& row : rows) CHECK(holds(row));
  };
  const auto node = [](const graph::SavedRow& row) -> const Graph::Node& {
    return real_gpt_step().nodes[at(real_gpt_step().saved[at(row.index)].node)];
  };
  count({.operation = "soft?ax"},
        [&](auto& row) { return contains(node(row).operation, "softmax"); });
  count({.name = "*norm?.weight"}, [](auto& row) {
    return contains(real_gpt_step().values[at(real_gpt_step().saved[at(row.index)].value)].name,
                    "norm");
  });
  count({.module = "layers.1"},
        [&](auto& row) { return node(row).module.starts_with("layers.1"); });
  count({.name = "cross_entropy.logits"},
        [&](auto& row) { return node(row).operation == "cross_entropy"; });
  count({.operation = "matmul#2"}, [&](auto& row) { return node(row).operation == "matmul"; });
  count({.module = "(root)"}, [&](auto& row) { return node(row).module.empty(); });
  CHECK(graph::check_assertion(real_gpt_step(), "slots(module=\"(root)\") > 0").holds);
  count({.shared = true}, [](auto& row) { return !row.shared_with.empty(); });
  count({.two_equal_dims = true}, [](auto& row) {
    const Shape& shape =
        real_gpt_step().values[at(real_gpt_step().saved[at(row.index)].value)].shape;
    return std::count(shape.begin(), shape.end(), 6) == 2 ||
           std::count(shape.begin(), shape.end(), 8) == 2;
  });
}

TEST_CASE(
    "a pattern that matches nothing in the graph is refused, not answered by an empty table") {
  const auto refused = [](const graph::SavedSelection& selection, const std::string& why) {
    check_throws(ErrorKind::value, {"saved: ", why},
                 [&] { (void)graph::saved_rows(real_gpt_step(), selection); });
  };
  refused({.module = "nosuch"}, "no module matches \"nosuch\"; the nearest names are ");
  refused({.operation = "softmix"},
          "no operation matches \"softmix\"; the nearest names are softmax");
  refused({.name = "norm?.wait"}, "no slot's or value's name matches \"norm?.wait\"; the nearest ");
  refused({.operation = "softmax", .module = "*.norm1"},
          "no operation \"softmax\" runs in \"*.norm1\"");
  // What is there and saves nothing has no rows.
  const auto none = graph::saved_rows(real_gpt_step(), {.operation = "reshape"});
  CHECK(none.empty());
  CHECK(graph::saved_text(real_gpt_step(), none) == "nothing saved matches\n");
}

TEST_CASE("saved rows are sorted by operation, or by module, when that is asked for") {
  using Names = std::pair<std::string, std::string>;
  const auto names = [](graph::SavedOrder order) {
    std::vector<Names> all;
    for (const graph::SavedRow& row : graph::saved_rows(real_gpt_step(), {.order = order})) {
      const Graph::Node& node =
          real_gpt_step().nodes[at(real_gpt_step().saved[at(row.index)].node)];
      const bool by_operation = order == graph::SavedOrder::operation;
      all.push_back(by_operation ? Names(node.operation, node.module)
                                 : Names(node.module, node.operation));
    }
    CHECK(all.size() == real_gpt_step().saved.size());
    return all;
  };
  for (const graph::SavedOrder order : {graph::SavedOrder::operation, graph::SavedOrder::module}) {
    const std::vector<Names> all = names(order);
    CHECK(std::is_sorted(all.begin(), all.end()));
    CHECK(all.front() != all.back());
  }
}

TEST_CASE("an expanded value needs the bytes of its distinct elements") {
  Graph graph = real_gpt_step();
  const std::int64_t index = graph::saved_rows(graph).front().index;
  Graph::Value& value = graph.values[at(graph.saved[at(index)].value)];
  value.shape = {5, 3};
  value.strides = {0, 1};
  CHECK(graph::saved_rows(graph).front().needed == 3 * 4);
}

TEST_CASE("the saved slots that are listed are summed, each storage once") {
  const auto rows = graph::saved_rows(real_gpt_step(), {.operation = "matmul"});
  const json report = json::parse(graph::saved_json(real_gpt_step(), rows));
  std::map<std::int64_t, std::int64_t> kept;  // by storage
  for (const json& row : report["rows"]) kept[row["storage"]] = row["retained"];
  std::int64_t sum = 0;
  for (const auto& [storage, bytes] : kept) sum += bytes;
  CHECK(sum < report["saved_bytes"]);
  CHECK(report["listed_bytes"] == sum);
  CHECK(contains(graph::saved_text(real_gpt_step(), rows),
                 "slots, which keep " + graph::format_bytes(sum) + ";\n"));
}

TEST_CASE("the list of saved slots says what retained and needed are") {
  const std::string text = graph::saved_text(real_gpt_step(), graph::saved_rows(real_gpt_step()));
  CHECK(contains(text, "\nretained: bytes of the storage that the slot keeps alive; needed: "));
}
