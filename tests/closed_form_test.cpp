// Closed forms: exact polynomials of what models save, found by dry runs.
#include "support/checks.h"

#include <tapehead/graph/closed_form.h>
#include <tapehead/graph/formula_value.h>
#include <tapehead/tapehead.h>

#include <algorithm>
#include <limits>

using namespace tapehead;
using graph::closed_forms;
using graph::Dimension;
using graph::DimensionSizes;
using graph::GraphForms;
using graph::interpolate;
using graph::Polynomial;
using graph::Quantities;
using tests::check_throws;

namespace {

const std::vector<Dimension> attention_sizes = {
    {"B", 1, {1, 2, 3}}, {"h", 1, {1, 2, 4}}, {"T", 2, {3, 4, 5, 7}}, {"d", 2, {8, 12, 16, 20}}};

std::string text_of(const std::optional<Polynomial>& form) {
  return form ? to_string(*form) : "none";
}

// Causal self-attention with projections and biases, forward.
Graph attention(DimensionSizes sizes, double dropout, nn::AttentionPath path) {
  const DryRun dry;
  Generator generator;
  const nn::MultiHeadAttention module(
      {.embed_dim = sizes[3], .num_heads = sizes[1], .dropout = dropout, .path = path}, generator);
  const Tensor x = randn({sizes[0], sizes[2], sizes[3]});
  Tape tape;
  const Tensor y = module(x, nn::Mask::causal());
  return tape.graph();
}

GraphForms attention_forms(double dropout, nn::AttentionPath path = nn::AttentionPath::composed) {
  return closed_forms([&](DimensionSizes sizes) { return attention(sizes, dropout, path); },
                      attention_sizes);
}

// First a matrix of B x B, then one of d x d: the larger makes the peak.
Graph two_products(DimensionSizes sizes) {
  const DryRun dry;
  const Tensor x = randn({sizes[0], sizes[1]});
  const Ledger ledger;
  const Tensor x_transposed = transpose(x, 0, 1);
  matmul(x, x_transposed);
  matmul(x_transposed, x);
  return ledger.graph();
}

// Rows whose `added` has a term B*h*T^2, with that term's coefficient.
std::vector<std::pair<std::string, std::int64_t>> square_rows(const GraphForms& forms) {
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const graph::SavedForm& row : forms.slots) {
    REQUIRE(row.added.has_value());
    for (const Polynomial::Term& term : row.added->terms())
      if (term.exponents == std::vector<int>{1, 1, 2, 0})
        rows.emplace_back(to_string(row), term.numerator);
  }
  return rows;
}

}  // namespace

// ---- polynomials -------------------------------------------------------------------------------

TEST_CASE("a polynomial prints its terms by total degree, then by the order of the names") {
  const std::vector<std::string> names{"B", "h", "T"};
  const Polynomial p(names, {{1, 1, {0, 0, 2}},
                             {-1, 1, {0, 0, 0}},
                             {4, 1, {1, 1, 2}},
                             {-3, 2, {0, 1, 0}},
                             {1, 1, {1, 0, 0}}});
  CHECK(to_string(p) == "4*B*h*T^2 + T^2 + B - 3/2*h - 1");
  CHECK(to_string(Polynomial(names, {})) == "0");
  CHECK(to_string(Polynomial(names, {{-1, 1, {0, 1, 0}}})) == "-h");
  CHECK(p(std::vector<std::int64_t>{2, 4, 3}) == 4 * 2 * 4 * 9 + 9 + 2 - 6 - 1);
}

TEST_CASE("a polynomial has a value only where it is whole and fits in 64 bits") {
  const Polynomial half({"x"}, {{1, 2, {1}}});
  CHECK(half(std::vector<std::int64_t>{6}) == 3);
  check_throws(ErrorKind::value, {"1/2*x", "not whole"},
               [&] { half(std::vector<std::int64_t>{3}); });
  check_throws(ErrorKind::value, {"2 sizes for the 1"}, [&] {
    half(std::vector<std::int64_t>{3, 4});
  });
  const Polynomial fourth({"x"}, {{1, 1, {4}}});
  check_throws(ErrorKind::value, {"x^4", "64 bits"},
               [&] { fourth(std::vector<std::int64_t>{1 << 16}); });
  check_throws(ErrorKind::value, {"x^4", "64 bits"},
               [&] { fourth(std::vector<std::int64_t>{std::int64_t{1} << 60}); });
}

TEST_CASE("interpolation is exact: any polynomial of the degrees of the grid comes back") {
  const std::vector<graph::Axis> axes{{"a", {3, -5}}, {"b", {7, 1, 4}}};
  const Polynomial p({"a", "b"}, {{5, 1, {1, 2}}, {-7, 1, {0, 1}}, {2, 1, {1, 0}}, {9, 1, {0, 0}}});
  std::vector<std::int64_t> values;
  for (const std::int64_t a : axes[0].nodes)
    for (const std::int64_t b : axes[1].nodes) values.push_back(p(std::vector<std::int64_t>{a, b}));
  CHECK(interpolate(axes, values) == p);
}

TEST_CASE("a triangular number is found with its fraction") {
  const std::vector<graph::Axis> axes{{"n", {10, 11, 13}}};
  const auto form = interpolate(axes, std::vector<std::int64_t>{55, 66, 91});
  CHECK(text_of(form) == "1/2*n^2 + 1/2*n");
}

TEST_CASE("what a closed form prints can be read, fractions too, and has its value") {
  const Polynomial p({"a", "b"},
                     {{-5, 3, {1, 2}}, {1, 2, {0, 2}}, {-1, 2, {0, 1}}, {7, 1, {0, 0}}});
  for (const std::int64_t a : {3, -6, 0})
    for (const std::int64_t b : {0, 1, 5, 1 << 10})
      CHECK(graph::formula_value(to_string(p), {{"a", a}, {"b", b}}) ==
            p(std::vector<std::int64_t>{a, b}));
  CHECK(graph::formula_value(to_string(Polynomial({"a"}, {})), {{"a", 3}}) == 0);
}

TEST_CASE(
    "interpolation at the ends of 64 bits gives the polynomial or nothing, never a wrong one") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<graph::Axis> line{{"x", {0, 1}}};
  CHECK(text_of(interpolate(line, std::vector<std::int64_t>{0, most})) ==
        std::to_string(most) + "*x");
  CHECK(text_of(interpolate(line, std::vector<std::int64_t>{-most, most})) == "none");
  const std::vector<graph::Axis> far{{"x", {most - 2, most - 1, most}}};
  CHECK(text_of(interpolate(far, std::vector<std::int64_t>{1, 7, -5})) == "none");
}

TEST_CASE("interpolation refuses a grid that is none") {
  const std::vector<std::int64_t> two{1, 2};
  check_throws(ErrorKind::value, {"axis x", "once"}, [&] {
    interpolate(std::vector<graph::Axis>{{"x", {4, 4}}}, two);
  });
  check_throws(ErrorKind::value, {"2 values for a grid of 3 points"}, [&] {
    interpolate(std::vector<graph::Axis>{{"x", {1, 2, 3}}}, two);
  });
}

// ---- forms of quantities -----------------------------------------------------------------------

TEST_CASE("what no polynomial of the degrees describes has no form") {
  const std::vector<Dimension> sizes{{"x", 1, {1, 2, 5}}, {"y", 2, {1, 2, 3, 4}}};
  const auto forms = closed_forms(
      [](DimensionSizes s) {
        Quantities all{{"good", 3 * s[0] * s[1] * s[1] + 1},
                       {"too high", s[0] * s[0]},
                       {"another regime", std::max(s[0], 4 * (s[0] - 3))},
                       {"mixed", s[0] == 5 && s[1] == 4 ? 1 : 0},
                       {"constant", 8}};
        if (s[1] == 2) all["seen once"] = 1;
        return all;
      },
      sizes);
  REQUIRE(forms.size() == 6);
  CHECK(text_of(forms.at("good")) == "3*x*y^2 + 1");
  CHECK(text_of(forms.at("constant")) == "8");
  for (const char* name : {"too high", "another regime", "mixed", "seen once"})
    CHECK_MESSAGE(text_of(forms.at(name)) == "none", name);
}

TEST_CASE("dimensions that cannot be sampled are refused, and errors of the model pass through") {
  const auto refused = [](const std::vector<Dimension>& sizes, const char* why) {
    check_throws(ErrorKind::value, {why},
                 [&] { closed_forms([](DimensionSizes) { return Quantities{}; }, sizes); });
  };
  refused({}, "no dimension");
  refused({{"x", -1, {1, 2}}}, "dimension x of degree -1");
  refused({{"x", 2, {1, 2, 3}}}, "at least degree + 2");
  refused({{"x", 1, {1, 2, 2}}}, "distinct");
  check_throws(ErrorKind::shape, {"odd"}, [] {
    closed_forms([](DimensionSizes) -> Quantities { throw ShapeError("model", "odd"); },
                 std::vector<Dimension>{{"x", 1, {1, 2, 3}}});
  });
}

// ---- forms of graphs ---------------------------------------------------------------------------

TEST_CASE("self-attention with projections and biases saves 4*B*h*T^2 + 20*B*T*d + T^2 bytes") {
  const GraphForms forms = attention_forms(0);
  CHECK(text_of(forms.saved_activations) == "4*B*h*T^2 + 20*B*T*d + T^2");
  // Beside these one weight: x wants no gradient, so none reads those of the other projections.
  CHECK(text_of(forms.saved) == "4*B*h*T^2 + 20*B*T*d + T^2 + 4*d^2");
  // 8 B T d^2 for the projections, 4 B T^2 d for the scores and the weighted values.
  CHECK(text_of(forms.flops) == "4*B*T^2*d + 8*B*T*d^2");
  CHECK(text_of(forms.recomputed) == "0");
  CHECK(text_of(forms.peak) == "none");  // no ledger watched
}

TEST_CASE("at dropout 0 one slot alone adds a B*h*T^2 term; with dropout the others have names") {
  using Rows = std::vector<std::pair<std::string, std::int64_t>>;
  CHECK(square_rows(attention_forms(0)) == Rows{{"softmax.y", 4}});
  // The weights after dropout. What was dropped is drawn again, not saved.
  const GraphForms dropped = attention_forms(0.1);
  CHECK(square_rows(dropped) == Rows{{"softmax.y", 4}, {"matmul#2.a", 4}});
  CHECK(text_of(dropped.saved_activations) == "8*B*h*T^2 + 20*B*T*d + T^2");
}

TEST_CASE("fused attention saves nothing of T x T") {
  const GraphForms forms = attention_forms(0, nn::AttentionPath::fused);
  CHECK(text_of(forms.saved_activations) == "8*B*h*T + 20*B*T*d");
  CHECK(square_rows(forms).empty());
}

TEST_CASE("the rows of slots add up to the total, and a shared storage adds to the first alone") {
  const GraphForms forms = attention_forms(0);
  const std::vector<std::int64_t> sizes{7, 5, 11, 30};
  std::int64_t added = 0;
  for (const graph::SavedForm& row : forms.slots) added += (*row.added)(sizes);
  CHECK(added == (*forms.saved_activations)(sizes));
  const auto row = [&](const std::string& name) {
    const auto found = std::find_if(forms.slots.begin(), forms.slots.end(),
                                    [&](const auto& form) { return to_string(form) == name; });
    REQUIRE(found != forms.slots.end());
    return *found;
  };
  CHECK(text_of(row("linear#1.x").added) == "4*B*T*d");
  CHECK(text_of(row("linear#2.x").bytes) == "4*B*T*d");
  CHECK(text_of(row("linear#2.x").added) == "0");
  CHECK(text_of(row("out_proj linear.weight").bytes) == "4*d^2");
  CHECK(text_of(row("out_proj linear.weight").added) == "0");  // a parameter exists anyway
  CHECK(text_of(row("matmul#2.a").bytes) == "4*B*h*T^2");
  CHECK(row("softmax.y").reason == "dx = y * (g - sum(g * y))");
}

TEST_CASE("layers stand together, and their number may be a dimension") {
  const std::vector<Dimension> sizes{
      {"L", 1, {1, 2, 4}}, {"B", 1, {1, 2, 3}}, {"d", 2, {3, 4, 5, 7}}};
  struct Stack : nn::Module {
    std::vector<nn::Linear> layers;
    void visit(nn::Visitor& visitor) override { visitor("layers", layers); }
  };
  const GraphForms forms = closed_forms(
      [](DimensionSizes s) {
        const DryRun dry;
        Generator generator;
        Stack stack;
        for (std::int64_t i = 0; i < s[0]; ++i)
          stack.layers.emplace_back(nn::LinearOptions{.in_features = s[2], .out_features = s[2]},
                                    generator);
        stack.name_parameters();
        Tensor x = randn({s[1], s[2]});
        Tape tape;
        for (const nn::Linear& layer : stack.layers) x = tanh(layer(x));
        return tape.graph();
      },
      sizes,
      [](const Graph& graph) {
        return Quantities{{"nodes", std::ssize(graph.nodes)}};
      });
  CHECK(text_of(forms.saved_activations) == "4*L*B*d + 4*B*d");
  CHECK(text_of(forms.flops) == "2*L*B*d^2");
  CHECK(text_of(forms.others.at("nodes")) == "2*L");
  REQUIRE(forms.slots.size() >= 2);
  CHECK(to_string(forms.slots[0]) == "layers.* linear.x");
  CHECK(text_of(forms.slots[0].bytes) == "4*L*B*d");
}

TEST_CASE("a peak has a form within its regime, and none across two") {
  const auto peak = [](const std::vector<std::int64_t>& batches) {
    const std::vector<Dimension> sizes{{"B", 2, batches}, {"d", 2, {16, 17, 18, 20}}};
    return text_of(closed_forms(two_products, sizes).peak);
  };
  CHECK(peak({1, 2, 3, 4}) == "4*B*d + 4*d^2");
  CHECK(peak({30, 31, 32, 40}) == "4*B^2 + 4*B*d");
  CHECK(peak({1, 2, 30, 31}) == "none");
}

TEST_CASE("what a checkpoint computes again is counted apart from the forward pass") {
  const std::vector<Dimension> sizes{{"B", 1, {1, 2, 3}}, {"d", 2, {3, 4, 5, 7}}};
  const auto forms = [&](bool checkpointed) {
    return closed_forms(
        [&](DimensionSizes s) {
          const DryRun dry;
          Generator generator;
          const nn::Linear map({.in_features = s[1], .out_features = s[1]}, generator);
          const Tensor x = randn({s[0], s[1]});
          const nn::Block block = [&](const std::vector<Tensor>& in) { return tanh(map(in[0])); };
          const Ledger ledger;
          Tape tape;
          const Tensor y = checkpointed ? nn::checkpoint(block, {x}) : block({x});
          tape.gradient(sum(y), map.parameters());
          return ledger.graph();
        },
        sizes);
  };
  const GraphForms plain = forms(false), again = forms(true);
  CHECK(text_of(plain.flops) == "2*B*d^2");
  CHECK(text_of(plain.recomputed) == "0");
  CHECK(text_of(again.flops) == "2*B*d^2");
  CHECK(text_of(again.recomputed) == "2*B*d^2");
  CHECK(text_of(plain.saved_activations) == "8*B*d");
  CHECK(text_of(again.saved_activations) == "4*B*d");
}
