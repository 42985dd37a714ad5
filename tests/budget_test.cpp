// Budgets in tests: each matcher within and over, with the whole of its message.
#include "support/checks.h"
#include "support/folder.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/graph/budget.h>
#include <tapehead/tapehead.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace tapehead;
using graph::formula_value;
using tests::check_throws;

namespace {

constexpr std::int64_t B = 2, T = 5, d = 12, h = 3;
const graph::Sizes sizes = {{"B", B}, {"T", T}, {"d", d}, {"h", h}};

// What one block of composed attention records; with a ledger, also when.
Graph attention_graph() {
  Generator generator(7);
  nn::MultiHeadAttention attention(
      {.embed_dim = d, .num_heads = h, .path = nn::AttentionPath::composed}, generator);
  const Tensor x = randn({B, T, d}, DType::f32, generator);
  Tape tape;
  const Tensor y = attention(x, nn::Mask::causal());
  return tape.graph();
}

// tanh saves y, mul its constant factor, sum nothing: few enough to write the messages down.
Graph small_graph(bool with_ledger = false) {
  const Tensor w = parameter(full({4}, 0.5)), x = full({4}, 2.0);
  const Ledger ledger;
  const Tape tape;
  const Tensor y = tanh(w), z = mul(y, x);
  const Tensor loss = sum(z);
  return with_ledger ? ledger.graph() : tape.graph();
}

std::string printed(const graph::BudgetResult& result) {
  std::ostringstream text;
  text << result;
  return text.str();
}

void check_ok(const graph::BudgetResult& result, const std::string& message) {
  CHECK(result);
  CHECK(result.ok);
  CHECK(printed(result) == message);
}

// What a failing CHECK(result) shows is what doctest makes of the result.
void check_not_ok(const graph::BudgetResult& result, const std::string& message) {
  CHECK_FALSE(result);
  CHECK_FALSE(result.ok);
  CHECK(printed(result) == message);
  CHECK(std::string(doctest::toString(result).c_str()) == message);
}

}  // namespace

// ---- formulas -----------------------------------------------------------------------------------

TEST_CASE("formulas have the value that algebra gives them") {
  CHECK(formula_value("4*B*h*T^2 + 20*B*T*d + T^2", sizes) ==
        4 * 2 * 3 * 25 + 20 * 2 * 5 * 12 + 25);
  CHECK(formula_value("7", {}) == 7);
  CHECK(formula_value("-B", sizes) == -2);
  CHECK(formula_value("1 - 2 - 3", {}) == -4);
  CHECK(formula_value("2 + 3*4", {}) == 14);
  CHECK(formula_value("(2 + 3)*4", {}) == 20);
  CHECK(formula_value("-2^2", {}) == -4);
  CHECK(formula_value("(-2)^2", {}) == 4);
  CHECK(formula_value("2^3^2", {}) == 512);
  CHECK(formula_value("2^(B + 1)", sizes) == 8);
  CHECK(formula_value("5^0", {}) == 1);
  CHECK(formula_value("0^0", {}) == 1);
  CHECK(formula_value("1^9223372036854775807", {}) == 1);
  CHECK(formula_value("(-1)^9223372036854775807", {}) == -1);
  CHECK(formula_value("0^9223372036854775806", {}) == 0);
  CHECK(formula_value(" a_1*a_2 ", {{"a_1", 3}, {"a_2", 4}}) == 12);
  CHECK(formula_value("9223372036854775807", {}) == std::int64_t{9223372036854775807});
  CHECK(formula_value("B/2", sizes) == 1);
  CHECK(formula_value("1/2*T^2 + 1/2*T", sizes) == 15);
  CHECK(formula_value("12/2/3*2", {}) == 4);
  CHECK(formula_value("-3/2*(2/3)^2*T*h", sizes) == -10);
  CHECK(formula_value("2^62 - 1 + 2^62", {}) == std::int64_t{9223372036854775807});
}

TEST_CASE("what is no formula is an error that says where, and nothing overflows silently") {
  const auto refused = [](const std::string& formula, const std::string& why) {
    check_throws(ErrorKind::value, {"formula: \"" + formula + "\": " + why},
                 [&] { (void)formula_value(formula, sizes); });
  };
  refused("", "a number, a name or \"(\" must stand at character 1");
  refused("4*", "a number, a name or \"(\" must stand at character 3");
  refused("4 B", "an operator must stand at character 3");
  refused("(B + 1", "\")\" must stand at character 7");
  refused("B/", "a number, a name or \"(\" must stand at character 3");
  refused("T/2", "its value 5/2 is not whole");
  refused("T/(B - 2)", "a division by 0");
  refused("2^(1/2)", "an exponent is not whole");
  refused("1/2^(2^7)", "its value does not fit in 63 bits");
  refused("B * -1", "a number, a name or \"(\" must stand at character 5");
  refused("T^2 + N", "no size is named \"N\"");
  refused("2^(1 - B)", "the exponent -1 is negative");
  refused("9223372036854775808", "its value does not fit in 63 bits");
  refused("2^63", "its value does not fit in 63 bits");
  refused("9223372036854775807 + 1", "its value does not fit in 63 bits");
  refused("0 - 9223372036854775807 - 2", "its value does not fit in 63 bits");
  refused("10^9223372036854775807", "its value does not fit in 63 bits");
  refused(std::string(100, '('), "the formula is nested too deeply at character 65");
  refused("2" + std::string(100, '^'), "a number, a name or \"(\" must stand at character 3");
}

// ---- budgets ------------------------------------------------------------------------------------

TEST_CASE("saved bytes are held to a number or a formula, to the byte") {
  const Graph all = small_graph();
  REQUIRE(all.saved_activation_bytes() == 32);
  check_ok(graph::saves_at_most(all, 32), "saves 32 bytes, exactly the budget of 32");
  check_ok(graph::saves_at_most(all, 1000), "saves 32 bytes, 968 less than the budget of 1,000");
  check_ok(graph::saves_at_most(all, {"8*n", {{"n", 4}}}),
           "saves 32 bytes, exactly the budget of 32 = 8*n, n = 4");
  check_not_ok(graph::saves_at_most(all, {"8*n - 1", {{"n", 4}}}),
               "saves 32 bytes, 1 more than the budget of 31 = 8*n - 1, n = 4\n"
               "  tanh.y f32 (4), 16 bytes: dx = g * (1 - y^2)\n"
               "  mul.b f32 (4), 16 bytes: da = g * b");
}

TEST_CASE("a negative budget is an error") {
  check_throws(ErrorKind::value, {"Budget: -1 bytes"}, [] { (void)graph::Budget(-1); });
  check_throws(ErrorKind::value, {"Budget: -8 bytes"}, [] { (void)graph::Budget("0 - 8", {}); });
}

TEST_CASE(
    "composed attention saves what its closed form says, and names it when that is too much") {
  const Graph all = attention_graph();
  CHECK(graph::saves_at_most(all, {"4*B*h*T^2 + 20*B*T*d + T^2", sizes}));
  const graph::BudgetResult result = graph::saves_at_most(all, {"20*B*T*d + T^2", sizes});
  CHECK_FALSE(result);
  INFO(result.message);
  CHECK(result.message.find(
            "softmax.y f32 (2, 3, 5, 5), 600 bytes, shared by 2 slots: dx = y * (g - sum(g * y)") !=
        std::string::npos);
  CHECK(result.message.find("linear.weight") == std::string::npos);  // no activation
}

TEST_CASE("composed attention saves at most what PyTorch 2.13 saves for the same operations") {
  // Bytes of the unique storages that torch.autograd.graph.saved_tensors_hooks sees, parameters
  // apart: projections, heads, q k^T, scale, masked_fill, softmax, times v, output projection.
  struct Case {
    std::int64_t batch, time, pytorch;
  };
  for (const Case& c : {Case{8, 128, 14'696'448}, {4, 512, 54'788'096}, {1, 2048, 159'383'552}}) {
    const DryRun dry;
    const nn::MultiHeadAttention attention({.embed_dim = 512, .num_heads = 8});
    const Tensor x = randn({c.batch, c.time, 512});
    const Tape tape;
    const Tensor y = attention(x, nn::Mask::causal());
    CHECK(graph::saves_at_most(tape.graph(), c.pytorch));
  }
}

TEST_CASE("squares of a size are found, parameters apart") {
  const Graph all = attention_graph();
  check_ok(graph::saves_no_square(all, 7), "saved tensors with two dims of size 7: 0");
  CHECK(graph::saves_no_square(all, d));  // out_proj.weight is (12, 12)
  check_throws(ErrorKind::value, {"saves_no_square: size 0"},
               [&] { (void)graph::saves_no_square(all, 0); });
  check_not_ok(
      graph::saves_no_square(all, T),
      "saved tensors with two dims of size 5: 3\n"
      "  softmax.y f32 (2, 3, 5, 5), 600 bytes, shared by 2 slots: dx = y * (g - sum(g * y))\n"
      "  matmul#2.a f32 (2, 3, 5, 5), 600 bytes, shared by 2 slots: db = scale * a^T g\n"
      "  masked_fill.mask bool (5, 5), 25 bytes: dx = 0 where mask else g");
}

TEST_CASE("an operation that saves nothing is told from one that does not run") {
  const Graph all = small_graph();
  check_ok(graph::saves_nothing(all, "sum"), "slots saved by sum (recorded 1 x): 0");
  check_not_ok(graph::saves_nothing(all, "tanh"),
               "slots saved by tanh (recorded 1 x): 1\n"
               "  tanh.y f32 (4), 16 bytes: dx = g * (1 - y^2)");
  check_not_ok(graph::saves_nothing(all, "tan"), "no tan was recorded");
  check_not_ok(graph::saves_nothing(all, "sum", "encoder"), "no sum was recorded in encoder");
}

TEST_CASE("an operation may be asked about in one module and what is below it") {
  Generator generator(3);
  const nn::TransformerEncoderLayer layer({.d_model = 12, .nhead = 3, .dim_feedforward = 20},
                                          generator);
  const Tensor x = randn({2, 5, 12}, DType::f32, generator);
  Tape tape;
  const Tensor y = layer(x);
  const Graph all = tape.graph();
  check_ok(graph::saves_nothing(all, "transpose", "self_attn"),
           "slots saved by transpose in self_attn (recorded 5 x): 0");
  check_not_ok(graph::saves_nothing(all, "linear", "self_attn.out_proj"),
               "slots saved by linear in self_attn.out_proj (recorded 1 x): 2\n"
               "  self_attn.out_proj linear.weight f32 (12, 12), 576 bytes: dx = g weight\n"
               "  self_attn.out_proj linear.x f32 (2, 5, 12), 480 bytes: dweight = g^T x");
  check_not_ok(graph::saves_nothing(all, "linear", "self_attn.out"),
               "no linear was recorded in self_attn.out");
  check_not_ok(graph::saves_nothing(all, "relu", "self_attn"), "no relu was recorded in self_attn");
}

TEST_CASE("a saved set is held to a list; what is missing and what was added are named") {
  const Graph all = small_graph();
  const std::vector<std::string> lines = graph::saved_lines(all);
  CHECK(lines == std::vector<std::string>{"- tanh y (4) f32 16", "- mul b (4) f32 16"});
  const std::string same = "saved slots that are not in the list: 0, missing ones: 0";
  check_ok(graph::saves_exactly(all, lines), same);
  check_ok(graph::saves_exactly(all, {lines[1], lines[0]}), same);
  check_not_ok(graph::saves_exactly(all, {lines[0], lines[0], "- relu y (4) f32 16"}),
               "saved slots that are not in the list: 1, missing ones: 2\n"
               "  added: - mul b (4) f32 16: da = g * b\n"
               "  missing: - relu y (4) f32 16\n"
               "  missing: - tanh y (4) f32 16");
}

TEST_CASE("a line of the list names the module") {
  const std::vector<std::string> lines = graph::saved_lines(attention_graph());
  CHECK(std::count(lines.begin(), lines.end(), "out_proj linear x (2, 5, 12) f32 480") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "- softmax y (2, 3, 5, 5) f32 600") == 1);
}

TEST_CASE("the list may stand in a file, with comments") {
  const Graph all = small_graph();
  const tests::Folder folder;
  const auto write = [&](const std::string& text) {
    std::ofstream(folder.file(), std::ios::binary) << text;
    return folder.file();
  };
  const std::string lines = "- mul b (4) f32 16\r\n\n- tanh y (4) f32 16";
  CHECK(graph::saves_as_in_file(all, write("# what the step saves\n" + lines)));
  check_not_ok(graph::saves_as_in_file(all, write(lines + "\n- tanh x (4) f32 16\n")),
               "saved slots that are not in the list: 0, missing ones: 1\n"
               "  missing: - tanh x (4) f32 16");
  check_throws(ErrorKind::io, {"saves_as_in_file", "nowhere"},
               [&] { (void)graph::saves_as_in_file(all, folder.file("nowhere")); });
}

TEST_CASE("the peak is held to a budget, and what is live there is listed") {
  const Tensor elsewhere = zeros({1000});
  const Graph all = small_graph(true);
  const std::string where = "in step 2, forward of sum";
  check_ok(graph::peaks_at_most(all, 68), "peaks at 68 bytes, exactly the budget of 68; " + where);
  check_ok(graph::peaks_at_most(all, {"20*n", {{"n", 4}}}),
           "peaks at 68 bytes, 12 less than the budget of 80 = 20*n, n = 4; " + where);
  check_not_ok(graph::peaks_at_most(all, 67),
               "peaks at 68 bytes, 1 more than the budget of 67; " + where +
                   ", when these are live:\n"
                   "  saved f32 (4), 16 bytes: tanh.y: dx = g * (1 - y^2)\n"
                   "  transient f32 (4), 16 bytes: made by mul in forward of mul\n"
                   "  saved f32 (4), 16 bytes: mul.b: da = g * b\n"
                   "  parameter f32 (4), 16 bytes: what is trained\n"
                   "  transient f32 (), 4 bytes: made by sum in forward of sum");
  check_throws(ErrorKind::value, {"peaks_at_most: ", "no events"},
               [&] { (void)graph::peaks_at_most(small_graph(), 1000); });
}

TEST_CASE("a peak before the first step is named as such") {
  Graph all;
  std::optional<Tensor> big = zeros({1000});
  const Ledger ledger;
  big.reset();
  const Tensor small = zeros({1});
  all = ledger.graph();
  const graph::BudgetResult result = graph::peaks_at_most(all, 4000);
  CHECK(result.ok);
  CHECK(result.message ==
        "peaks at 4,000 bytes, exactly the budget of 4,000; before the first step");
}

TEST_CASE("of many slots the largest are listed") {
  const Tensor w = parameter(full({4}, 0.5));
  const Tape tape;
  Tensor y = w;
  for (int i = 0; i < 20; ++i) y = tanh(y);
  const graph::BudgetResult result = graph::saves_nothing(tape.graph(), "tanh");
  CHECK(result.message.ends_with("\n  and 8 more"));
}

TEST_CASE("a dry run is held to the same budgets") {
  const DryRun dry;
  CHECK(graph::saves_at_most(attention_graph(), {"4*B*h*T^2 + 20*B*T*d + T^2", sizes}));
}
