// The runner of case files (tools/program), and the case files themselves.
#include "../tools/program/cases/inputs.h"
#include "../tools/program/cases/runner.h"

#include <tapehead/core/arithmetic.h>
#include <tapehead/graph/glob.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/pointwise.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace tapehead;
using namespace tapehead::program;

namespace {

namespace fs = std::filesystem;

// Runs every case of a file; what fails is reported by name.
std::size_t check_file(const fs::path& file) {
  const std::vector<Case> cases = read_case_file(file);
  for (const Case& c : cases) {
    const CaseResult result = run_case(c, file.filename().string());
    CHECK_MESSAGE(result.passed, c.name, ": ", result.message);
  }
  return cases.size();
}

// A file of one case of neg on [1, -2], with changes to it.
struct OneCase {
  std::string op = "neg";
  std::string inputs =
      R"([{"name": "x", "dtype": "f64", "shape": [2], "data": [1, -2], "requires_grad": true}])";
  std::string args = "{}";
  std::string rest =
      R"("outputs": [{"dtype": "f64", "shape": [2], "data": [-1, 2]}],
         "grad_outputs": [{"dtype": "f64", "shape": [2], "data": [3, 5]}],
         "grads": {"x": {"dtype": "f64", "shape": [2], "data": [-3, -5]}},
         "rtol": 1e-9, "atol": 1e-12)";

  std::string text() const {
    return R"({"format": "tapehead-cases/1", "source": "hand", "cases": [{"name": "one", "op": ")" +
           op + R"(", "inputs": )" + inputs + R"(, "args": )" + args + ", " + rest + "}]}";
  }
  Case parsed() const { return parse_case_file(text(), "hand.json").at(0); }
  CaseResult run(const Operations& table = operations()) const {
    return run_case(parsed(), "hand.json", table);
  }
  OneCase with(const std::string& from, const std::string& to) const {
    OneCase changed = *this;
    for (std::string* part : {&changed.inputs, &changed.args, &changed.rest}) {
      const std::size_t at = part->find(from);
      if (at == std::string::npos) continue;
      part->replace(at, from.size(), to);
      return changed;
    }
    FAIL("nothing to replace: ", from);
    return changed;
  }
};

void check_fails(const CaseResult& result, const std::string& fragment) {
  CHECK_FALSE(result.passed);
  CHECK_MESSAGE(result.message.find(fragment) != std::string::npos, result.message);
}

void check_malformed(const std::string& text, const std::string& fragment) {
  INFO(fragment);
  try {
    (void)parse_case_file(text, "hand.json");
    FAIL_CHECK("it was read");
  } catch (const CaseFormatError& error) {
    const std::string message = error.what();
    CHECK_MESSAGE(message.find("hand.json") == 0, message);
    CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  }
}

CaseTensor input_with_layout(const std::string& layout) {
  OneCase one;
  one.inputs = R"([{"name": "x", "dtype": "f64", "shape": [2, 3], "data": [1, 2, 3, 1, 2, 3], )" +
               layout + "}]";
  one.rest = R"("error": "value")";
  return one.parsed().inputs.at(0);
}

}  // namespace

// ---- the files ----------------------------------------------------------------------------------

TEST_CASE("every case in tests/cases passes") {
  std::size_t cases = 0;
  for (const auto& file : fs::directory_iterator(TAPEHEAD_SOURCE_DIR "/tests/cases"))
    cases += check_file(file.path());
  CHECK(cases > 500);
}

// ---- the runner notices -------------------------------------------------------------------------

TEST_CASE("a case that is met passes") { CHECK(OneCase().run().passed); }

TEST_CASE("a wrong output is found, with the worst element") {
  const CaseResult result = OneCase().with("[-1, 2]", "[-1.5, 4]").run();
  check_fails(result, "output 0 at (1): got 2, want 4; 2 of 2 elements");
  REQUIRE(result.mismatch.has_value());
  CHECK(result.mismatch->index == "(1)");
  CHECK(result.mismatch->got == 2);
  CHECK(result.mismatch->want == 4);
}

TEST_CASE("a wrong gradient, shape, dtype or number of outputs is found") {
  check_fails(OneCase().with("[-3, -5]", "[-3, 5]").run(), "gradient of x at (1): got -5, want 5");
  check_fails(OneCase()
                  .with(R"("shape": [2], "data": [-1, 2])", R"("shape": [2, 1], "data": [-1, 2])")
                  .run(),
              "output 0: got f64 (2), want f64 (2, 1)");
  check_fails(OneCase()
                  .with(R"("f64", "shape": [2], "data": [-1, 2])",
                        R"("i64", "shape": [2], "data": [-1, 2])")
                  .run(),
              "output 0: got f64 (2), want i64 (2)");
  OneCase two =
      OneCase().with("[-1, 2]}", R"([-1, 2]}, {"dtype": "f64", "shape": [], "data": [0]})");
  check_fails(two.with("[3, 5]}", "[3, 5]}, null").run(), "got 1 outputs, want 2");
}

TEST_CASE("the tolerance is atol + rtol * |want|, its bound included") {
  const OneCase loose = OneCase().with("1e-9", "0.25").with("1e-12", "0.5");
  CHECK(loose.with("[-1, 2]", "[-1, 2]").run().passed);
  CHECK(loose.with("[-1, 2]", "[-1, 1.25]").run().passed);         // 0.75 <= 0.5 + 0.25 * 1.25
  CHECK_FALSE(loose.with("[-1, 2]", "[-1, 1.125]").run().passed);  // 0.875 > 0.5 + 0.25 * 1.125
  CHECK(loose.with("[-1, 2]", "[-2, 2]").run().passed);            // 1 == 0.5 + 0.25 * 2
}

TEST_CASE("NaN equals NaN only, and an infinity the infinity of its sign") {
  const auto passes = [](const std::string& got, const std::string& want) {
    OneCase one;
    one.op = "contiguous";
    one.inputs = R"([{"name": "x", "dtype": "f64", "shape": [], "data": [)" + got + "]}]";
    one.rest = R"("outputs": [{"dtype": "f64", "shape": [], "data": [)" + want +
               R"(]}], "rtol": 1, "atol": 1)";
    return one.run().passed;
  };
  CHECK(passes("\"nan\"", "\"nan\""));
  CHECK(passes("\"inf\"", "\"inf\""));
  CHECK_FALSE(passes("\"inf\"", "\"-inf\""));
  CHECK_FALSE(passes("\"nan\"", "1"));
  CHECK_FALSE(passes("1", "\"nan\""));
  CHECK_FALSE(passes("1", "\"inf\""));
  CHECK_FALSE(passes("\"inf\"", "1"));
}

TEST_CASE("an unknown operation is a failure") {
  OneCase one;
  one.op = "negate";
  check_fails(one.run(), "unknown operation \"negate\"");
}

TEST_CASE("an error that is not the one wanted, or none, is a failure") {
  OneCase one;
  one.op = "log_softmax";
  one.args = R"({"dim": 3})";
  one.rest = R"("error": "index")";
  CHECK(one.run().passed);
  check_fails(one.with("index", "shape").run(), "got a index error");
  check_fails(one.with("3", "0").run(), "it returned, want a index error");
  check_fails(OneCase{.op = "log_softmax", .args = R"({"dim": 3})"}.run(), "threw: log_softmax");
}

TEST_CASE("an operation that writes to its input is found") {
  Operations table;
  table.add("neg", [](Call& c) {
    const Tensor x = c["x"];
    copy_values(x.view(), neg(x).view());
    return x;
  });
  check_fails(
      OneCase{
          .rest =
              R"("outputs": [{"dtype": "f64", "shape": [2], "data": [-1, 2]}], "rtol": 0, "atol": 0)"}
          .run(table),
      "the input x was written to");
}

TEST_CASE("an operation that loses the gradient is found") {
  Operations table;
  table.add("neg", [](Call& c) { return neg(c["x"].detach()); });
  check_fails(OneCase().run(table), "gradient of x at (1): got 0, want -5");
}

TEST_CASE("aliases are one tensor, and its gradient is the total over its uses") {
  OneCase one;
  one.op = "mul";
  one.inputs =
      R"([{"name": "a", "dtype": "f64", "shape": [], "data": [3], "requires_grad": true}])";
  one.args = R"({"alias": ["a", "b"]})";
  one.rest = R"("outputs": [{"dtype": "f64", "shape": [], "data": [9]}],
                "grad_outputs": [{"dtype": "f64", "shape": [], "data": [1]}],
                "grads": {"a": {"dtype": "f64", "shape": [], "data": [6]}}, "rtol": 0, "atol": 0)";
  CHECK(one.run().passed);
  Operations table;
  table.add("mul", [](Call& c) {
    CHECK(c["a"].is_same(c["b"]));
    return mul(c["a"], c["b"]);
  });
  CHECK(one.run(table).passed);
}

TEST_CASE("double backward checks the first gradients and those of their sum with grad_outputs") {
  // y = x^2, upstream v: g = 2 x v; s = g u: ds/dx = 2 v u, ds/dv = 2 x u.
  OneCase one;
  one.op = "double_backward";
  one.args = R"({"of": "square", "args": {}})";
  const auto scalar = [](const std::string& value) {
    return R"({"dtype": "f64", "shape": [], "data": [)" + value + "]";
  };
  one.inputs = "[" + scalar("3") + R"(, "name": "x", "requires_grad": true}, )" + scalar("5") +
               R"(, "name": "upstream", "requires_grad": true}])";
  one.rest = R"("outputs": [)" + scalar("30") + R"(}], "grad_outputs": [)" + scalar("7") +
             R"(}], "grads": {"x": )" + scalar("70") + R"(}, "upstream": )" + scalar("42") +
             R"(}}, "rtol": 0, "atol": 0)";
  CHECK(one.run().passed);
  check_fails(one.with("[70]", "[71]").run(), "gradient of x");
  check_fails(one.with("[42]", "[43]").run(), "gradient of upstream");
  check_fails(one.with("[30]", "[31]").run(), "output 0");
}

// ---- layouts ------------------------------------------------------------------------------------

TEST_CASE("inputs have the layouts that they ask for") {
  const Tensor transposed = build(input_with_layout(R"("layout": "transposed")"), "hand.json");
  CHECK(transposed.strides() == Strides{1, 2});
  const Tensor sliced =
      build(input_with_layout(R"("layout": "sliced", "slice_dim": 1)"), "hand.json");
  CHECK(sliced.strides() == Strides{6, 1});
  CHECK(sliced.offset() == 2);
  const Tensor expanded = build(
      input_with_layout(R"("layout": "expanded", "base_shape": [1, 3], "base_data": [1, 2, 3])"),
      "hand.json");
  CHECK(expanded.strides() == Strides{0, 1});
  for (const Tensor& x : {transposed, sliced, expanded})
    CHECK(x.to_vector() == std::vector<double>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("what lies outside a slice is NaN") {
  const Tensor sliced =
      build(input_with_layout(R"("layout": "sliced", "slice_dim": 1)"), "hand.json");
  const Tensor around = alias(sliced, {2, 6}, {6, 1}, 0);
  CHECK(std::isnan(around.to_vector()[1]));
  CHECK(std::isnan(around.to_vector()[5]));
}

TEST_CASE("a base that does not show the data is the file's fault") {
  const CaseTensor input =
      input_with_layout(R"("layout": "expanded", "base_shape": [1, 3], "base_data": [1, 2, 4])");
  CHECK_THROWS_AS((void)build(input, "hand.json"), CaseFormatError);
}

// ---- malformed files ----------------------------------------------------------------------------

TEST_CASE("a malformed file is an error that says what is wrong, never a silent skip") {
  const OneCase good;
  REQUIRE_NOTHROW((void)good.parsed());
  check_malformed("", "parse error");
  check_malformed("[]", "is not an object");
  check_malformed(good.text().substr(0, 200), "parse error");
  check_malformed(R"({"format": "tapehead-cases/2", "source": "", "cases": []})",
                  "the format is not");
  check_malformed(R"({"format": "tapehead-cases/1", "cases": []})", "\"source\" is missing");
  check_malformed(R"({"format": "tapehead-cases/1", "source": "", "cases": {}})",
                  "\"cases\" is not a list");
  check_malformed(R"({"format": "tapehead-cases/1", "source": "", "cases": [], "more": 1})",
                  "\"more\" does not belong");
  check_malformed(good.with("\"rtol\": 1e-9, ", "").text(), "\"rtol\" is missing");
  check_malformed(good.with("1e-9", "-1").text(), "a tolerance is negative");
  check_malformed(good.with("[1, -2]", "[1]").text(), "do not fill shape (2)");
  check_malformed(good.with("[1, -2]", "[1, true]").text(), "true is no f64 element");
  check_malformed(good.with("[1, -2]", "[1, \"NaN\"]").text(), "is no f64 element");
  check_malformed(good.with("\"shape\": [2]", "\"shape\": [-2]").text(), "a size is negative");
  check_malformed(good.with("\"shape\": [2]", "\"shape\": [9223372036854775807, 4]").text(),
                  "one: input 0");
  check_malformed(good.with("\"f64\"", "\"f16\"").text(), "the dtype \"f16\"");
  check_malformed(good.with("\"name\": \"x\"", "\"nmae\": \"x\"").text(), "\"name\" is missing");
  check_malformed(good.with("true", "1").text(), "requires_grad is not true or false");
  check_malformed(good.with("true", "true, \"layout\": \"diagonal\"").text(),
                  "the layout \"diagonal\"");
  check_malformed(good.with("true", "true, \"layout\": \"transposed\"").text(), "needs two dims");
  check_malformed(good.with("\"x\": {\"dtype\"", "\"y\": {\"dtype\"").text(),
                  "\"grads\" names \"y\"");
  check_malformed(
      good.with("[{\"dtype\": \"f64\", \"shape\": [2], \"data\": [3, 5]}]", "[]").text(),
      "differ in length");
  check_malformed(OneCase{.args = R"({"alias": ["y", "z"]})"}.text(), "\"alias\" does not begin");
  check_malformed(OneCase{.rest = R"("error": "syntax")"}.text(), "the error kind \"syntax\"");
  const std::string one = good.text();
  const std::string twice =
      one.substr(0, one.size() - 2) + "," + one.substr(one.find("{\"name\": \"one\""));
  check_malformed(twice, "two cases are named one");
  check_malformed(good.with("true", "true, \"requires_grad\": false").text(),
                  "at cases[0].inputs[0].requires_grad: the key stands there twice");
  check_malformed(good.with("[1, -2]", "[1, 1e400]").text(),
                  "at cases[0].inputs[0].data[1]: a number is beyond float64");
}

TEST_CASE(
    "an argument or input that is missing, of another type, or read by nobody is the file's "
    "fault") {
  const auto blames_file = [](const OneCase& one) {
    CHECK_THROWS_AS((void)one.run(), CaseFormatError);
  };
  blames_file({.op = "log_softmax"});
  blames_file({.op = "log_softmax", .args = R"({"dim": "0"})"});
  blames_file({.op = "log_softmax", .args = R"({"dim": 0.5})"});
  blames_file({.op = "log_softmax", .args = R"({"dim": 18446744073709551615})"});  // -1, bent
  blames_file({.args = R"({"dim": 0})"});
  for (const char* betas : {"[]", "[0.9]", "[0.9, 0.99, 0.999]"})
    blames_file({.op = "adam",
                 .inputs = R"([{"name": "param", "dtype": "f64", "shape": [1], "data": [1]}])",
                 .args = R"({"lr": 0.1, "eps": 1e-8, "weight_decay": 0, "betas": )" +
                         std::string(betas) + "}",
                 .rest = R"("outputs": [{"dtype": "f64", "shape": [1], "data": [1]}],
                            "rtol": 1e-9, "atol": 1e-12)"});
  blames_file({.op = "add"});
  blames_file(OneCase()
                  .with("\"name\": \"x\"", "\"name\": \"y\"")
                  .with("\"x\": {\"dtype\"", "\"y\": {\"dtype\""));
}

TEST_CASE("numbers that a float argument takes may be integers or strings") {
  OneCase one{.op = "mul_scalar", .args = R"({"value": 2})"};
  one.rest =
      R"("outputs": [{"dtype": "f64", "shape": [2], "data": [2, -4]}], "rtol": 0, "atol": 0)";
  CHECK(one.run().passed);
  CHECK(one.with("2}", "2.0}").run().passed);
  CHECK(one.with("2}", "\"-inf\"}").with("[2, -4]", "[\"-inf\", \"inf\"]").run().passed);
}

TEST_CASE("patterns match anywhere in a name, with wildcards") {
  CHECK(graph::matches("", "softmax/dim"));
  CHECK(graph::matches("max/d", "softmax/dim"));
  CHECK(graph::matches("soft*dim", "softmax/dim"));
  CHECK(graph::matches("s?ft", "softmax/dim"));
  CHECK(graph::matches("*a*x*", "softmax/dim"));
  CHECK_FALSE(graph::matches("dims", "softmax/dim"));
  CHECK_FALSE(graph::matches("d?im", "softmax/dim"));
  CHECK_FALSE(graph::matches("dim*soft", "softmax/dim"));
}
