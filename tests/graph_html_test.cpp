// The page of the tape viewer, as far as it can be judged without a browser; tests/viewer/ opens it
// in one.
#include "support/checks.h"
#include "support/folder.h"
#include "support/program.h"
#include "support/training_steps.h"
#include "support/viewer_samples.h"

#include <tapehead/graph/html.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/lint.h>
#include <tapehead/nn/io/atomic_file.h>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

// What the page holds in the element of that id.
std::string data(const std::string& page, const std::string& id) {
  const std::string start = "<script type=\"application/json\" id=\"" + id + "\">";
  const std::size_t from = page.find(start);
  if (from == std::string::npos) return "";
  const std::size_t begin = from + start.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

}  // namespace

TEST_CASE("a page holds its graph as it is, and the same graph gives the same page") {
  const Graph gpt = gpt_step();
  const std::string page = graph::to_html(gpt);
  CHECK(graph::from_json(data(page, "graph")) == gpt);
  CHECK(data(page, "other").empty());
  CHECK(graph::to_html(gpt_step()) == page);
  const Graph other = attention_step();
  CHECK(graph::from_json(data(graph::to_html(gpt, {.other = &other}), "other")) == other);
}

TEST_CASE("whatever names say, they stay inside their element") {
  const Graph hostile = viewer_samples().at("hostile");
  const std::string plain = graph::to_html(attention_step());
  const std::string page = graph::to_html(hostile, {.title = hostile.nodes[0].module});
  CHECK(graph::from_json(data(page, "graph")) == hostile);
  CHECK(nlohmann::json::parse(data(page, "about"))["title"] == hostile.nodes[0].module);
  for (const char* mark : {"<script", "</script", "<!--", "<img", "\u2028"}) {
    CAPTURE(mark);
    CHECK(count(page, mark) == count(plain, mark));
  }
}

TEST_CASE("a page loads nothing and allows no script but its own") {
  const std::string page = graph::to_html(attention_step());
  for (const char* part : {"src=", "http:", "https:", "@import", "url(", "fetch(", "XMLHttpRequest",
                           "innerHTML", "insertAdjacentHTML", "document.write", "eval("}) {
    CAPTURE(part);
    // The name space of drawings looks like an address.
    CHECK(count(page, part) == (std::string(part) == "http:" ? 1 : 0));
  }
  CHECK(count(page, "default-src 'none'; script-src 'sha256-") == 1);
  CHECK(count(page, "unsafe") == 0);
}

TEST_CASE("a page tells findings of the lint, budgets and letters for sizes") {
  const Graph gpt = gpt_step();
  const auto about = nlohmann::json::parse(
      data(graph::to_html(gpt, {.title = "a step",
                                .other_file = "later.json",
                                .sizes = {{"B", 2}, {"T", 6}},
                                .budgets = {"saved < 1MB", "count(operation=\"softmax\") == 3"}}),
           "about"));
  CHECK(about["title"] == "a step");
  CHECK(about["other_file"] == "later.json");
  CHECK(about["sizes"] == nlohmann::json{{"B", 2}, {"T", 6}});
  CHECK(about["budgets"][0]["holds"] == true);
  CHECK(about["budgets"][1]["holds"] == false);
  CHECK(about["budgets"][1]["comparisons"][0]["figure"] == 2);
  CHECK(about["findings"][0]["rule"] == "masked_fill");
}

TEST_CASE("a page of two graphs holds both to the budgets, and tells the findings of both") {
  const Graph gpt = gpt_step(), attention = attention_step();
  const auto about = [&](const graph::HtmlOptions& options) {
    return nlohmann::json::parse(data(graph::to_html(gpt, options), "about"));
  };
  const auto both = about(
      {.other = &attention, .budgets = {"saved < 1", "saved(operation=\"cross_entropy\") > 0"}});
  CHECK(both["budgets"].size() == 2);
  CHECK(both["other_budgets"][0]["comparisons"][0]["figure"] == attention.saved_activation_bytes());
  CHECK(both["other_budgets"][1]["problem"].get<std::string>().find("cross_entropy") !=
        std::string::npos);
  CHECK(both["other_findings"].size() == graph::lint(attention).size());
  CHECK_FALSE(about({}).contains("other_budgets"));
}

TEST_CASE("options that a page cannot show are refused") {
  const Graph step = attention_step();
  const auto page = [&](const graph::HtmlOptions& options) { (void)graph::to_html(step, options); };
  check_throws(ErrorKind::value, {"graph html", "T2=4"}, [&] { page({.sizes = {{"T2", 4}}}); });
  check_throws(ErrorKind::value, {"T=0"}, [&] { page({.sizes = {{"T", 0}}}); });
  check_throws(ErrorKind::value, {"tapehead-attention/1"}, [&] { page({.attention = "{}"}); });
  check_throws(ErrorKind::value, {"the attention maps: not JSON"},
               [&] { page({.attention = "<"}); });
  check_throws(ErrorKind::value, {"the attention maps: at format: the key stands there twice"},
               [&] { page({.attention = R"({"format": "tapehead-attention/1", "format": ""})"}); });
  check_throws(ErrorKind::value, {}, [&] { page({.budgets = {"saved <"}}); });
  const auto maps_of = [](const std::string& module) {
    return R"({"format": "tapehead-attention/1", "maps": [{"heads": [], "module": ")" + module +
           R"("}]})";
  };
  check_throws(ErrorKind::value, {"of another model", "\"layers.0.self_attn\"", "nearest name"},
               [&] { page({.attention = maps_of("layers.0.self_attn")}); });
  check_throws(ErrorKind::value, {"a map has no module"}, [&] {
    page({.attention = R"({"format": "tapehead-attention/1", "maps": [{"heads": []}]})"});
  });
}

TEST_CASE("tapehead graph html writes the page") {
  const Folder folder;
  const std::string file = folder.file("step.json").string(), out = folder.file("out").string();
  graph::write_json(gpt_step(), folder.file("step.json"));
  const auto run = [&](const std::string& options) {
    return run_program("graph html " + file + " " + options + " > " + out + " 2>&1");
  };
  CHECK(run("") == 0);
  CHECK(io::read_file("test", out) == graph::to_html(gpt_step(), {.title = file, .file = file}));
  CHECK(run("--diff " + file + " --sizes B=2 T=6 --assert 'saved < 1' --title x") == 0);
  const Graph other = gpt_step();
  CHECK(io::read_file("test", out) == graph::to_html(gpt_step(), {.title = "x",
                                                                  .file = file,
                                                                  .other = &other,
                                                                  .other_file = file,
                                                                  .sizes = {{"B", 2}, {"T", 6}},
                                                                  .budgets = {"saved < 1"}}));
  const std::string both = io::read_file("test", out);
  CHECK(run_program("graph html --diff " + file +
                    " --assert 'saved < 1' --title x --sizes B=2 T=6 " + file + " > " + out) == 0);
  CHECK(io::read_file("test", out) == both);
  const std::string page = folder.file("page.html").string();
  CHECK(run("-o " + page) == 0);
  CHECK(io::read_file("test", page) == graph::to_html(gpt_step(), {.title = file, .file = file}));
  CHECK(run("--sizes T") == 2);
  CHECK(run("--sizes T=6 nofile") == 2);
  CHECK(run("--sizes T=6 T=7") == 2);
  CHECK(io::read_file("test", out) == "tapehead: graph html: the size T is given twice\n");
  CHECK(run("--sizes T=6 B=77777") == 2);
  CHECK(io::read_file("test", out) ==
        "tapehead: graph html: no dim of the graph is 77,777, so B would stand nowhere\n");
  CHECK(run("--sizes T=six") == 2);
  CHECK(run("--sizes T=-1") == 2);
  CHECK(run("--attention " + file) == 2);
}

TEST_CASE("answers to what-if questions are those that the page is held to, too") {
  const std::string path = TAPEHEAD_SOURCE_DIR "/tests/data/whatif.json";
  CHECK(what_if_answers(viewer_samples()) == io::read_file("test", path));
}
