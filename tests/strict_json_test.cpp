// JSON that others may have written: what one reader would take for another meaning is refused.
#include <tapehead/nn/io/strict_json.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

using namespace tapehead;
using io::parse_json;

namespace {

void refused(const std::string& text, const std::string& why) {
  CAPTURE(text);
  try {
    (void)parse_json(text, 4);
    FAIL_CHECK("it was read");
  } catch (const io::JsonError& error) {
    CHECK(std::string(error.what()).find(why) == 0);
  }
}

}  // namespace

TEST_CASE("a text is read as the JSON library reads it") {
  const std::string text = R"({"a": [1, 2.5, {"a": null}, []], "b": {"a": true, "c": "x"}})";
  CHECK(parse_json(text, 3) == nlohmann::json::parse(text));
  CHECK(parse_json("1e308") == 1e308);
}

TEST_CASE("a key that stands twice in one object is refused, with its place") {
  refused(R"({"a": 1, "a": 2})", "at a: the key stands there twice");
  refused(R"({"a": [0, [1, 2], {"b": {"c": 1}, "b": 3}]})",
          "at a[2].b: the key stands there twice");
  refused(R"([{}, {"a": 1}, {"b": [], "a": 1, "b": 2}])", "at [2].b: the key stands there twice");
}

TEST_CASE("a number beyond float64 is refused as that, with its place") {
  refused(R"({"a": {"b": 1}, "dim": 1e400})",
          "at dim: a number is beyond float64: number overflow parsing '1e400'");
  refused(R"({"a": [1, [2, -1e999]]})", "at a[1][1]: a number is beyond float64");
  refused("1e400", "a number is beyond float64");
}

TEST_CASE("what is no JSON is refused, and what lies too deep or behind a zero byte") {
  refused("", "not JSON: parse error at line 1, column 1");
  refused(R"({"a": [1, 2})", "at a[2]: not JSON: parse error");
  refused(R"({"a": 1} x)", "not JSON: ");
  refused("\"\xff\"", "not JSON: ");
  refused(std::string("{}\0{", 4), "not JSON: byte 3 is zero");
  refused(R"({"a": [[[[1]]]]})", "at a[0][0][0]: nested too deeply, more than 4 lists and objects");
}

TEST_CASE("an integer is a whole number that 64 bits hold, and nothing else is made into one") {
  using io::integer_of;
  CHECK(integer_of(parse_json("9223372036854775807")) == INT64_MAX);
  CHECK(integer_of(parse_json("-9223372036854775808")) == INT64_MIN);
  for (const char* other :
       {"9223372036854775808", "18446744073709551615", "1.0", "1e300", "-1e300", "true", "\"1\""})
    CHECK_MESSAGE(!integer_of(parse_json(other)), other);
}

TEST_CASE("an integer that an object lacks, or that is none, is named") {
  const auto thrown = [](const std::string& text, bool is_unsigned) -> std::string {
    const nlohmann::json object = parse_json(text);
    try {
      if (is_unsigned) (void)io::unsigned_at(object, "n");
      else (void)io::integer_at(object, "n");
      return "nothing";
    } catch (const io::JsonError& error) {
      return error.what();
    }
  };
  CHECK(io::integer_at(parse_json(R"({"n": -3})"), "n") == -3);
  CHECK(io::unsigned_at(parse_json(R"({"n": 18446744073709551615})"), "n") == UINT64_MAX);
  CHECK(thrown(R"({"m": 1})", false) == "\"n\" is missing");
  CHECK(thrown("[1]", true) == "\"n\" is missing");
  CHECK(thrown(R"({"n": 1e300})", false) == "\"n\" is 1e+300, not a 64-bit integer");
  CHECK(thrown(R"({"n": -1})", true) == "\"n\" is -1, not an unsigned 64-bit integer");
}

TEST_CASE("a complaint quotes no more of a long text than a line can hold") {
  const std::string text(100000, 'x');
  for (const std::string& bad : {"[1, " + text + "]", "[" + std::string(100000, '1') + "e999]",
                                 "{\"" + text + "\": }", "[\"" + text + "\xff\"]"})
    try {
      (void)parse_json(bad, 4);
      FAIL_CHECK("it was read");
    } catch (const io::JsonError& error) {
      CHECK(std::string(error.what()).size() < 600);
    }
  std::string accents;
  for (int i = 0; i < 1000; ++i) accents += "\u00e9";
  const std::string cut = io::shortened("x" + accents);
  CHECK(nlohmann::json::parse("\"" + cut + "\"").is_string());  // whole characters
  CHECK(io::shortened("short") == "short");
}
