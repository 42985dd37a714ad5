// Wrong calls of every operation: the kind of error, and that its text names the operation and
// shows what was got. After each, tape, memory and process are as they were.
#include "support/checks.h"
#include "support/variation.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/scope.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/derivatives.h>
#include <tapehead/ops/diagonal.h>
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/linear.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/multinomial.h>
#include <tapehead/ops/prod.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/statistics.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <cmath>
#include <regex>
#include <set>

using namespace tapehead;
using namespace tapehead::tests;

namespace {

struct WrongCall {
  const char* operation;
  ErrorKind kind;
  const char* shows;  // what the text must quote: a shape, a number
  void (*call)();
};

Tensor f(const Shape& shape) { return full(shape, 0.5, DType::f64); }
Tensor i(const Shape& shape, double value = 0) { return full(shape, value, DType::i64); }
Tensor b(const Shape& shape) { return full(shape, 1, DType::boolean); }

constexpr ErrorKind shape = ErrorKind::shape, index_ = ErrorKind::index, dtype = ErrorKind::dtype,
                    value = ErrorKind::value;

// One call a line.
// clang-format off
constexpr WrongCall wrong_calls[] = {
    {"add", shape, "(2, 3)", [] { add(f({2, 3}), f({2, 4})); }},
    {"sub", shape, "(2, 3)", [] { sub(f({2, 3}), f({2})); }},
    {"mul", dtype, "f32 (3)", [] { mul(f({2, 3}), ones({3})); }},
    {"div", dtype, "i64 (2)", [] { div(i({2}), i({2})); }},
    {"maximum", shape, "(0)", [] { maximum(f({2}), f({0})); }},
    {"minimum", dtype, "bool (2)", [] { minimum(f({2}), b({2})); }},
    {"pow", shape, "(4)", [] { pow(f({3}), f({4})); }},
    {"where", dtype, "f64 (2)", [] { where(f({2}), f({2}), f({2})); }},
    {"where", shape, "(3)", [] { where(b({3}), f({2}), f({2})); }},
    {"exp", dtype, "i64 (2)", [] { exp(i({2})); }},
    {"clamp", value, "f64 (2)", [] { clamp(f({2}), {}, {}); }},
    {"tanh", dtype, "bool (2)", [] { tanh(b({2})); }},
    {"gelu", value, "tan", [] { parse_approximate("tan"); }},
    {"eq", shape, "(2)", [] { eq(f({2}), f({3})); }},
    {"lt", dtype, "i64 (2)", [] { lt(f({2}), i({2})); }},
    {"logical_and", dtype, "i64 (2)", [] { logical_and(b({2}), i({2})); }},
    {"logical_not", dtype, "f64 (2)", [] { logical_not(f({2})); }},
    {"isfinite", dtype, "i64 (2)", [] { isfinite(i({2})); }},

    {"sum", index_, "2", [] { sum(f({2, 3}), {2}); }},
    {"sum", value, "(0, -2)", [] { sum(f({2, 3}), {0, -2}); }},
    {"mean", index_, "-3", [] { mean(f({2, 3}), {-3}); }},
    {"mean", dtype, "i64 (2)", [] { mean(i({2})); }},
    {"prod", index_, "1", [] { prod(f({2}), 1); }},
    {"amax", shape, "(2, 0)", [] { amax(f({2, 0}), {1}); }},
    {"amin", shape, "(0)", [] { amin(f({0})); }},
    {"var", index_, "1", [] { var(f({2}), {1}); }},
    {"std", dtype, "i64 (2)", [] { tapehead::std(i({2})); }},
    {"logsumexp", index_, "1", [] { logsumexp(f({2}), {1}); }},
    {"norm", value, "-1", [] { norm(f({2}), -1); }},
    {"any", dtype, "f64 (2)", [] { any(f({2})); }},
    {"all", index_, "1", [] { all(b({2}), {1}); }},
    {"sum_to", shape, "(2)", [] { sum_to(f({3}), {2}); }},
    {"cumsum", index_, "1", [] { cumsum(f({2}), 1); }},
    {"argmax", shape, "(0)", [] { argmax(f({0})); }},
    {"argmin", index_, "2", [] { argmin(f({2, 3}), 2); }},
    {"max", index_, "1", [] { max(f({2}), 1); }},
    {"topk", value, "4", [] { topk(f({3}), 4); }},
    {"topk", value, "-1", [] { topk(f({3}), -1); }},

    {"matmul", shape, "(2, 3)", [] { matmul(f({2, 3}), f({2, 3})); }},
    {"matmul", shape, "()", [] { matmul(f({}), f({2})); }},
    {"matmul", shape, "(2, 3, 4)", [] { matmul(f({2, 3, 4}), f({3, 4, 5})); }},
    {"matmul", dtype, "f32 (3, 2)", [] { matmul(f({2, 3}), ones({3, 2})); }},
    {"bmm", shape, "(2, 3)", [] { bmm(f({2, 3}), f({3, 2})); }},
    {"bmm", shape, "(1, 2, 3)", [] { bmm(f({1, 2, 3}), f({2, 3, 2})); }},
    {"dot", shape, "(2)", [] { dot(f({2}), f({3})); }},
    {"outer", shape, "(2, 1)", [] { outer(f({2, 1}), f({3})); }},
    {"linear", shape, "(4, 3)", [] { linear(f({2, 2}), f({4, 3})); }},
    {"linear", shape, "(3)", [] { linear(f({2, 3}), f({4, 3}), f({3})); }},
    {"linear", dtype, "i64 (2, 3)", [] { linear(i({2, 3}), f({4, 3})); }},
    {"einsum", value, "ij,jk->il", [] { einsum("ij,jk->il", {f({2, 3}), f({3, 2})}); }},
    {"einsum", value, "ij", [] { einsum("ij", {}); }},
    {"einsum", shape, "(3)", [] { einsum("i,i->", {f({2}), f({3})}); }},
    {"fused_attention", shape, "(4, 3)", [] { fused_attention(f({2, 2}), f({4, 3}), f({4, 2})); }},
    {"fused_attention", dtype, "f64 (2, 4)", [] { fused_attention(f({2, 2}), f({4, 2}), f({4, 2}), {.hidden = f({2, 4})}); }},
    {"fused_attention", value, "1.5", [] { fused_attention(f({2, 2}), f({4, 2}), f({4, 2}), {.dropout = 1.5}); }},

    {"softmax", index_, "1", [] { softmax(f({2}), 1); }},
    {"softmax", dtype, "i64 (2)", [] { softmax(i({2}), 0); }},
    {"softmax_backward", shape, "(3)", [] { softmax_backward(f({2}), f({3}), 0); }},
    {"log_softmax", index_, "-2", [] { log_softmax(f({2}), -2); }},
    {"layer_norm", shape, "(2, 3)", [] { layer_norm(f({2, 3}), {2}); }},
    {"layer_norm", shape, "(2)", [] { layer_norm(f({2, 3}), {3}, f({2})); }},
    {"layer_norm", value, "-1", [] { layer_norm(f({2, 3}), {3}, {}, {}, -1); }},
    {"rms_norm", value, "nan", [] { rms_norm(f({2, 3}), {3}, {}, std::nan("")); }},
    {"rms_norm", dtype, "f32 (3)", [] { rms_norm(f({2, 3}), {3}, ones({3})); }},
    {"cross_entropy", dtype, "f64 (2)", [] { cross_entropy(f({2, 3}), f({2})); }},
    {"cross_entropy", shape, "(3)", [] { cross_entropy(f({2, 3}), i({3})); }},
    {"cross_entropy", index_, "7", [] { cross_entropy(f({2, 3}), i({2}, 7)); }},
    {"cross_entropy", value, "1.5", [] { cross_entropy(f({2, 3}), i({2}), {.label_smoothing = 1.5}); }},
    {"nll_loss", index_, "-1", [] { nll_loss(f({2, 3}), i({2}, -1)); }},
    {"mse_loss", shape, "(2, 1)", [] { mse_loss(f({2}), f({2, 1})); }},
    {"smooth_l1_loss", value, "-1", [] { smooth_l1_loss(f({2}), f({2}), -1); }},
    {"binary_cross_entropy_with_logits", dtype, "bool (2)", [] { binary_cross_entropy_with_logits(f({2}), b({2})); }},

    {"reshape", shape, "(2, 3)", [] { reshape(f({2, 3}), {4, -1}); }},
    {"reshape", shape, "(-1, -1)", [] { reshape(f({2, 3}), {-1, -1}); }},
    {"reshape", shape, "(0, -1)", [] { reshape(f({0, 3}), {0, -1}); }},
    {"flatten", index_, "3", [] { flatten(f({2, 3}), 0, 3); }},
    {"flatten", shape, "(2, 3)", [] { flatten(f({2, 3}), 1, 0); }},
    {"squeeze", index_, "2", [] { squeeze(f({1, 3}), 2); }},
    {"unsqueeze", index_, "4", [] { unsqueeze(f({2, 3}), 4); }},
    {"transpose", index_, "2", [] { transpose(f({2, 3}), 0, 2); }},
    {"permute", shape, "(2, 3)", [] { permute(f({2, 3}), {0}); }},
    {"permute", value, "(1, 1)", [] { permute(f({2, 3}), {1, 1}); }},
    {"expand", shape, "(2, 3)", [] { expand(f({2, 3}), {2, 4}); }},
    {"expand", shape, "(3)", [] { expand(f({2, 3}), {3}); }},
    {"narrow", index_, "3", [] { narrow(f({3}), 0, 2, 2); }},
    {"narrow", value, "-1", [] { narrow(f({3}), 0, 0, -1); }},
    {"slice", value, "0", [] { slice(f({3}), 0, 0, 3, 0); }},
    {"select", index_, "3", [] { select(f({3}), 0, 3); }},
    {"split", value, "0", [] { split(f({3}), 0); }},
    {"split", shape, "f64 (3)", [] { split(f({3}), std::vector<std::int64_t>{1, 1}); }},
    {"chunk", value, "0", [] { chunk(f({3}), 0); }},
    {"slice_backward", shape, "(4)", [] { slice_backward(f({4}), {3}, 0, 0); }},
    {"slice_backward", shape, "(0)", [] { slice_backward(f({0}), {3}, 0, 4); }},
    {"diagonal", value, "0", [] { diagonal(f({2, 3}), 0, 0); }},
    {"diagonal", index_, "2", [] { diagonal(f({2, 3}), 0, 2); }},
    {"cat", value, "list", [] { cat({}); }},
    {"cat", shape, "(2, 4)", [] { cat({f({2, 3}), f({2, 4})}); }},
    {"cat", dtype, "i64 (2)", [] { cat({f({2}), i({2})}); }},
    {"stack", value, "list", [] { stack({}); }},
    {"stack", shape, "(3)", [] { stack({f({2}), f({3})}); }},
    {"repeat", shape, "(2, 3)", [] { repeat(f({2, 3}), {2}); }},
    {"repeat", value, "(-1)", [] { repeat(f({2}), {-1}); }},
    {"flip", value, "(0, 0)", [] { flip(f({2}), {0, 0}); }},

    {"masked_fill", dtype, "i64 (2)", [] { masked_fill(f({2}), i({2}), 0); }},
    {"masked_fill", shape, "(2, 2)", [] { masked_fill(f({2}), b({2, 2}), 0); }},
    {"embedding", dtype, "f64 (2)", [] { embedding(f({4, 3}), f({2})); }},
    {"embedding", shape, "(4)", [] { embedding(f({4}), i({2})); }},
    {"embedding", index_, "4", [] { embedding(f({4, 3}), i({2}, 4)); }},
    {"index_select", index_, "-1", [] { index_select(f({4, 3}), 0, i({2}, -1)); }},
    {"index_select", shape, "(2, 2)", [] { index_select(f({4, 3}), 0, i({2, 2})); }},
    {"index_add", shape, "(3, 3)", [] { index_add(f({4, 3}), 0, i({2}), f({3, 3})); }},
    {"gather", index_, "1099511627776", [] { gather(f({4}), 0, i({2}, 1099511627776.0)); }},
    {"gather", shape, "(2, 2)", [] { gather(f({4}), 0, i({2, 2})); }},
    {"scatter_add", dtype, "f32 (2)", [] { scatter_add(f({4}), 0, i({2}), ones({2})); }},
    {"tril", shape, "(2)", [] { tril(f({2})); }},
    {"triu", shape, "()", [] { triu(f({})); }},
    {"dropout", value, "1.5", [] { dropout(f({2}), 1.5); }},
    {"dropout", dtype, "i64 (2)", [] { dropout(i({2}), 0.5); }},
    {"randint", value, "3", [] { randint(3, 3, {2}); }},
    {"multinomial", shape, "(2, 2, 2)", [] { multinomial(f({2, 2, 2}), 1); }},
    {"zeros", value, "(-1)", [] { zeros({-1}); }},
    {"arange", value, "0", [] { arange(0, 3, 0); }},
};
// clang-format on

// "x f64 (2, 3)", "tensors[0] ()": whatever does not fit a tensor is shown with that tensor.
bool shows_a_shape(const std::string& text) {
  static const std::regex shape_of_operand(R"(\S \((\d+(, \d+)*)?\))");
  return std::regex_search(text, shape_of_operand);
}

void check_is(const WrongCall& wrong) {
  const std::int64_t live = memory_stats().live;
  const auto thrown = thrown_by(wrong.call);
  REQUIRE_MESSAGE(thrown.has_value(), "nothing was thrown");
  CHECK_MESSAGE(thrown->kind == wrong.kind, thrown->text);
  CHECK_MESSAGE(thrown->text.starts_with(std::string(wrong.operation) + ": "), thrown->text);
  CHECK_MESSAGE(thrown->text.find(wrong.shows) != std::string::npos, thrown->text);
  if (wrong.kind == shape || wrong.kind == index_)
    CHECK_MESSAGE(shows_a_shape(thrown->text), thrown->text);
  CHECK(memory_stats().live == live);
}

// An index inside a tensor is found only where there are values.
bool is_about_values(const WrongCall& wrong) {
  DryRun dry;
  return wrong.kind == ErrorKind::index && !thrown_by(wrong.call);
}

// The row's operation, and those that it records: add with a number is add_scalar in graphs.
std::set<std::string> names_of(const OperationCase& row) {
  Tape tape;
  row.call(make_leaves(row, shape_variations(row).front()));
  std::set<std::string> names{row.operation()};
  for (const Graph::Node& node : tape.graph().nodes) names.insert(node.operation);
  return names;
}

// Operands that an undefined tensor stands for as "none".
bool may_be_left_out(const OperationCase& row, std::size_t k) {
  const std::string operation = row.operation();
  if (operation == "linear" || operation == "cross_entropy" || operation == "nll_loss")
    return k == 2;
  if (operation == "layer_norm" || operation == "rms_norm") return k >= 1;
  return operation == "fused_attention" && k >= 3;
}

}  // namespace

TEST_CASE(
    "every wrong call is the right kind of error, names the operation and quotes the operands") {
  for (const WrongCall& wrong : wrong_calls) {
    CAPTURE(std::string(wrong.operation) + " showing " + wrong.shows);
    check_is(wrong);
    Tape tape;
    check_is(wrong);
    CHECK(tape.size() == 0);
    CHECK(Tape::recording() == &tape);
    if (is_about_values(wrong)) continue;
    const DryRun dry;
    check_is(wrong);
  }
}

TEST_CASE("an undefined operand of any operation is a ValueError that names the operation") {
  for (const OperationCase& row : operation_cases())
    for (std::size_t k = 0; k < row.inputs().size(); ++k) {
      CAPTURE(row.name());
      CAPTURE(k);
      std::vector<Tensor> inputs = make_inputs(row, shape_variations(row).front());
      inputs[k] = Tensor();
      const auto call = [&] { row.call(inputs); };
      const auto thrown = thrown_by(call);
      CHECK(thrown.has_value() != may_be_left_out(row, k));
      if (!thrown) continue;
      CHECK_MESSAGE(thrown->kind == ErrorKind::value, thrown->text);
      CHECK_MESSAGE(names_of(row).contains(thrown->text.substr(0, thrown->text.find(':'))),
                    thrown->text);
      CHECK_MESSAGE(thrown->text.find("undefined") != std::string::npos, thrown->text);
      Tape tape;
      CHECK(thrown_by(call).has_value());
      CHECK(tape.size() == 0);
    }
}

TEST_CASE("every kind of error has a name") {
  const std::pair<ErrorKind, std::string_view> names[] = {
      {ErrorKind::shape, "shape"},
      {ErrorKind::index, "index"},
      {ErrorKind::dtype, "dtype"},
      {ErrorKind::value, "value"},
      {ErrorKind::state, "state"},
      {ErrorKind::io, "io"},
      {ErrorKind::out_of_memory, "out_of_memory"},
      {ErrorKind::nan, "nan"}};
  for (const auto& [kind, name] : names) CHECK(to_string(kind) == name);
}

TEST_CASE("a dim, a position or a class out of range is shown with the operand it belongs to") {
  const auto shows = [](std::initializer_list<std::string_view> fragments,
                        FunctionRef<void()> call) {
    check_throws(ErrorKind::index, fragments, call);
  };
  shows({"softmax: dim 2 of x (2, 3) is outside [-2, 2)"}, [] { softmax(f({2, 3}), 2); });
  shows({"sum: dim -1099511627776 of x (2) is outside [-1, 1)"},
        [] { sum(f({2}), {-1099511627776}); });
  shows({"argmax: dim 1 of x () is outside [-1, 1)"}, [] { argmax(f({}), 1); });
  shows({"cat: dim 2 of tensors[0] (2, 3)"}, [] { cat({f({2, 3}), f({2, 3})}, 2); });
  shows({"unsqueeze: dim 3 of x (2, 3) is outside [-3, 3)"}, [] { unsqueeze(f({2, 3}), 3); });
  shows({"stack: dim -4 of tensors[0] (2, 3) is outside [-3, 3)"}, [] { stack({f({2, 3})}, -4); });
  shows({"embedding: indices i64 (1, 2) holds 4", "[0, 4), dim 0 of weight f64 (4, 3)"}, [] {
    embedding(f({4, 3}), i({1, 2}, 4));
  });
  shows({"gather: index i64 (4, 1) holds -1", "[0, 3), dim 1 of x f64 (4, 3)"}, [] {
    gather(f({4, 3}), -1, i({4, 1}, -1));
  });
  shows({"cross_entropy: target i64 (2, 4) holds 7 at (0, 0), outside the classes [0, 3)"}, [] {
    cross_entropy(f({2, 3, 4}), i({2, 4}, 7));
  });
}

TEST_CASE("an operation whose result would have too many dims says so in its own name") {
  const Tensor most = f(Shape(Dims::max_rank, 1));
  const auto shows = [](const char* operation, FunctionRef<void()> call) {
    check_throws(
        ErrorKind::shape,
        {std::string(operation) + ": the result made of ", "would have 17 dims", "at most 16"},
        call);
  };
  shows("unsqueeze", [&] { unsqueeze(most, 0); });
  shows("stack", [&] { stack({most, most}); });
  shows("embedding", [] { embedding(f({4, 3}), i(Shape(Dims::max_rank, 1))); });
  shows("jacobian", [&] { jacobian([](const Tensor& x) { return reshape(sum(x), {1}); }, most); });
}

TEST_CASE("an error says where it happened, and what would have fitted") {
  const ModuleScope model("model"), layer("layers.0");
  check_throws(ErrorKind::shape, {"b would fit transposed", "in model.layers.0"}, [] {
    matmul(f({2, 3}), f({4, 3}));
  });
}
