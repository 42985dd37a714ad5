// Attention maps as JSON and as a page, and `tapehead maps` as a function.
#include "support/checks.h"
#include "support/folder.h"

#include "../tools/program/command_line.h"
#include "../tools/program/train/checkpoint.h"
#include "../tools/program/train/maps_command.h"
#include "../tools/program/train/trainer.h"

#include <tapehead/core/tape.h>
#include <tapehead/graph/attention_maps.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/ops/create.h>

#include <nlohmann/json.hpp>

#include <iostream>
#include <limits>
#include <sstream>

using namespace tapehead;
using tests::check_throws;
using tests::contains;

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Maps = std::vector<nn::AttentionMap>;
using Texts = std::vector<std::string>;

// One sequence, two heads, two queries, two keys; and a second map of one query and three keys.
Maps some_maps() {
  const double third = 1.0 / 3, nan = std::numeric_limits<double>::quiet_NaN();
  return {{"layers.0.self_attn",
           from_vector<double>({1, 0, third, 1 - third, 0, 0, 1e-9, nan}, {1, 2, 2, 2})},
          {"cross", from_vector<double>({0.5, 0.25, 0.25}, {1, 1, 1, 3})}};
}

// What stands in the page's data element, as a browser reads it: up to the first end tag.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script", from) - from);
}

}  // namespace

TEST_CASE("attention maps as JSON: rows of queries a head, 6 decimals, null for NaN") {
  const Texts tokens = {"a", "\n"};
  CHECK(graph::attention_to_json(some_maps(), tokens) ==
        "{\"format\": \"tapehead-attention/1\",\n"
        "\"maps\": [{\"heads\": [[[1,0],[0.333333,0.666667]],\n"
        "[[0,0],[0,null]]], \"module\": \"layers.0.self_attn\"},\n"
        "{\"heads\": [[[0.5,0.25,0.25]]], \"module\": \"cross\"}],\n"
        "\"tokens\": [\"a\", \"\\n\"]}\n");
}

TEST_CASE("what a mask hides is written as a grid: one that the heads share, or one for each") {
  const Tensor weights = full({2, 2, 2, 3}, 0.5);
  const auto hidden = [&](const std::vector<bool>& cells, const Shape& shape) {
    const Maps maps = {{"m", weights, from_vector(cells, shape)}};
    return json::parse(graph::attention_to_json(maps, {}, 1))["maps"][0]["hidden"].dump();
  };
  CHECK(hidden({false, true, true, false, false, true}, {2, 3}) == R"([[".xx","..x"]])");
  CHECK(hidden({true, false, false, false, true, false}, {2, 1, 1, 3}) == R"([[".x.",".x."]])");
  CHECK(hidden({true, false}, {1, 2, 1, 1}) == R"([["xxx","xxx"],["...","..."]])");
  check_throws(ErrorKind::shape, {"(2, 4)"}, [&] {
    hidden({false, true, true, false, false, true, false, true}, {2, 4});
  });
}

TEST_CASE("one sequence of a batch is written, and what is none is an error") {
  const Maps maps = {{"", from_vector<float>({1, 0.5F}, {2, 1, 1, 1})}};
  CHECK(json::parse(graph::attention_to_json(maps, {}, 1))["maps"][0]["heads"][0][0][0] == 0.5);
  check_throws(ErrorKind::index, {"sequence 2", "(2, 1, 1, 1)"},
               [&] { graph::attention_to_json(maps, {}, 2); });
  check_throws(ErrorKind::index, {"-1"}, [&] { graph::attention_to_html(maps, {}, -1); });
  const Maps flat = {{"", ones({2, 2})}};
  check_throws(ErrorKind::shape, {"(2, 2)"}, [&] { graph::attention_to_json(flat, {}); });
}

TEST_CASE("the page holds the same data, whatever the tokens are, and loads nothing") {
  const Texts tokens = {"</script><script>alert(1)</script>", "<!--", "\"'\\ & \xe2\x80\xa8",
                        "\xe5\xb1\xa4\xf0\x9f\x98\x80",       "\xff", std::string(1, '\0')};
  const std::string page = graph::attention_to_html(some_maps(), tokens);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  const json data = json::parse(data_of(page));
  CHECK(data == json::parse(graph::attention_to_json(some_maps(), tokens)));
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) CHECK(data["tokens"][i] == tokens[i]);
  CHECK(data["tokens"][4] == "\xef\xbf\xbd");
  CHECK(!contains(data_of(page), "<"));
  for (const char* loads : {"http:", "https:", "src=", "href=", "import ", "fetch(", "url(", "{{"})
    CHECK_MESSAGE(!contains(page, loads), loads);
}

TEST_CASE("tapehead maps writes what the model attends to in a text, as page or as numbers") {
  const tests::Folder folder;
  program::TrainOptions options;
  options.layers = 2;
  options.heads = 2;
  options.dim = 8;
  options.context = 6;
  const std::string characters = "\nab\xc3\xa9";
  nn::Gpt model = program::make_model(options, 4);
  nn::AdamW optimizer(model);
  program::save_run(folder.file("."), {.options = options, .characters = characters}, model,
                    optimizer);
  const auto run = [&](const char* text, const char* out) {
    const std::string file = folder.file(out);
    std::ostringstream said;
    std::streambuf* const terminal = std::cout.rdbuf(said.rdbuf());
    const std::string model_folder = folder.file(".");
    const char* const words[] = {"tapehead", "maps", "--model", model_folder.c_str(),
                                 "--text",   text,   "-o",      file.c_str()};
    CHECK(program::run_command_line(8, words) == program::done);
    std::cout.rdbuf(terminal);
    CHECK(said.str() == "2 layers, 4 characters: " + file + "\n");
    return io::read_file("test", file);
  };
  const json numbers = json::parse(run("ab\xc3\xa9\n", "maps.json"));
  CHECK(numbers["tokens"] == json({"a", "b", "\xc3\xa9", "\n"}));
  REQUIRE(numbers["maps"].size() == 2);
  CHECK(numbers["maps"][1]["module"] == "layers.1.self_attn");
  CHECK(numbers["maps"][1]["hidden"].dump() == R"([[".xxx","..xx","...x","...."]])");
  model.eval();
  const Tape::Pause pause;
  const nn::AttentionRecorder recorder;
  model(from_vector<std::int64_t>({1, 2, 3, 0}, {4}));
  const double weight = recorder.maps()[1].weights.to_vector()[16 + 4 * 2 + 1];
  CHECK(weight > 0.01);
  CHECK(numbers["maps"][1]["heads"][1][2][1].get<double>() ==
        doctest::Approx(weight).epsilon(1e-4));  // 6 decimals of at least 0.01
  CHECK(json::parse(data_of(run("ab\xc3\xa9\n", "maps.html"))) == numbers);
  const auto refuses = [&](const char* text, const char* out, const char* why) {
    check_throws(ErrorKind::value, {why}, [&] {
      program::run_maps({.model = folder.file("."), .text = text, .out = folder.file(out)});
    });
  };
  refuses("abababa", "x.json", "7 characters, and the model's context is 6");
  refuses("", "x.json", "empty");
  refuses("abc", "x.json", "--text");
  refuses("ab", "x.txt", ".html or .json");
}
