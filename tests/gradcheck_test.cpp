// gradcheck finds each kind of wrong gradient, says where, and names its cause.
#include "support/checks.h"
#include "support/tensors.h"
#include "support/toy_operations.h"

#include <tapehead/core/gradcheck.h>
#include <tapehead/ops/create.h>

#include <cmath>
#include <locale>
#include <numeric>

using namespace tapehead;
using tests::check_throws;
using tests::numbers;
using toy::product;
using toy::scaled;
using toy::total;

namespace {

using Inputs = std::vector<Tensor>;

Tensor matrix(std::int64_t rows, std::int64_t columns, double first = 1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    values.push_back(first + 0.37 * static_cast<double>(i * i % 7) + 0.11 * static_cast<double>(i));
  return from_vector(values, {rows, columns});
}

// An operation whose forward and rule are what a test says; results have x's shape.
struct CustomNode final : Node {
  CustomNode() : Node("custom") {}
  Saved x{*this, "x", {0}, "dx"};
  std::function<Grads(const Tensor& g, const Tensor& x)> rule;
  Grads backward(Tensor g, const Wanted&) override { return rule(g, x.get()); }
};
Tensor custom(const Tensor& x, const std::function<double(double)>& value,
              std::function<Grads(const Tensor&, const Tensor&)> rule) {
  std::vector<double> values = x.to_vector();
  for (double& v : values) v = value(v);
  return record<CustomNode>(from_vector(values, x.shape()), {&x}, [&](CustomNode& node) {
    node.x.save(x);
    node.rule = std::move(rule);
  });
}

// f(x, g) element by element, for rules that are to be differentiated once only.
Tensor elementwise(const Tensor& g, const Tensor& x, double (*f)(double g, double x)) {
  std::vector<double> gs = g.to_vector(), xs = x.to_vector();
  for (std::size_t i = 0; i < gs.size(); ++i) gs[i] = f(gs[i], xs[i]);
  return from_vector(gs, x.shape());
}

Tensor transposed(const Tensor& x) {
  return alias(x, {x.shape()[1], x.shape()[0]}, {x.strides()[1], x.strides()[0]}, x.offset());
}

GradcheckReport failing(const GradcheckReport& report, Diagnosis diagnosis,
                        const std::string& explanation = "") {
  const std::string text = to_string(report);
  INFO(text);
  CHECK_FALSE(report.ok);
  CHECK(report.diagnosis == diagnosis);
  CHECK(report.explanation.find(explanation) != std::string::npos);
  CHECK(text.find("FAILED") != std::string::npos);
  CHECK(text.find(to_string(diagnosis)) != std::string::npos);
  return report;
}

void passing(const GradcheckReport& report) {
  INFO(to_string(report));
  CHECK(report.ok);
  CHECK(report.diagnosis == Diagnosis::none);
  CHECK(to_string(report.diagnosis) == "none");
}

Tensor square_times(const Inputs& in) { return product(product(in[0], in[0]), in[1]); }

}  // namespace

// ---- right gradients ----------------------------------------------------------------------------

TEST_CASE(
    "a right gradient passes in first and second order, element by element and in fast mode") {
  const Inputs inputs{matrix(2, 3), matrix(2, 3, -2)};
  for (const bool fast : {false, true}) {
    passing(gradcheck(square_times, inputs, {.fast = fast}));
    passing(gradgradcheck(square_times, inputs, {.fast = fast}));
  }
  const GradcheckReport report = gradcheck(square_times, inputs);
  CHECK(report.input_name.substr(0, 6) == "input ");
  CHECK(std::abs(report.analytic - report.numeric) < 1e-8);  // differences are that exact
  CHECK(to_string(report).starts_with("gradcheck: ok: largest error at input"));
  CHECK(to_string(gradgradcheck(square_times, inputs)).starts_with("gradgradcheck: ok"));
}

TEST_CASE("a step or tolerance with which nothing could fail, or nothing pass, is refused") {
  const Inputs inputs{matrix(2, 3)};
  const auto wrong = [](const Inputs& in) { return product(in[0], in[0].detach()); };
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    check_throws(ErrorKind::value, {"gradcheck: ", "tolerance"},
                 [&] { gradcheck(wrong, inputs, {.rtol = bad}); });
    check_throws(ErrorKind::value, {"gradcheck: ", "tolerance"},
                 [&] { gradcheck(wrong, inputs, {.atol = bad, .fast = true}); });
    check_throws(ErrorKind::value, {"gradgradcheck: ", "eps"},
                 [&] { gradgradcheck(wrong, inputs, {.eps = bad}); });
  }
  check_throws(ErrorKind::value, {"eps 0"}, [&] { gradcheck(wrong, inputs, {.eps = 0}); });
}

TEST_CASE("several results, constants and results that are not floating among them") {
  const auto f = [](const Inputs& in) {
    return Inputs{product(in[0], in[0]), from_vector<std::int64_t>({1, 2}, {2}), total(in[0]),
                  numbers({5, 6}), in[0]};
  };
  passing(gradcheck(f, {numbers({1, 2})}));
  passing(gradgradcheck(f, {numbers({1, 2})}));
}

TEST_CASE("inputs keep their layout under the tape: transposed, sliced, expanded, 0-d, empty") {
  const Tensor base = matrix(4, 3);
  const Tensor sliced = alias(base, {2, 2}, {3, 1}, 4);
  const Tensor expanded = alias(base, {2, 2}, {0, 1}, 3);
  std::vector<Strides> seen;
  const auto f = [&seen](const Inputs& in) {
    if (Tape::recording()) seen.push_back(in[0].strides());
    return product(product(in[0], in[0]), in[1]);
  };
  for (const Tensor& x : {transposed(sliced), sliced, expanded}) {
    seen.clear();
    passing(gradcheck(f, {x, matrix(2, 2)}));
    REQUIRE(seen.size() == 1);
    CHECK(seen[0] == x.strides());
    passing(gradgradcheck(f, {x, matrix(2, 2)}));
  }
  passing(gradcheck(f, {toy::constant(3), toy::constant(2)}));
  passing(gradcheck(f, {matrix(0, 3), matrix(0, 3)}));
  passing(gradgradcheck(f, {matrix(0, 3), matrix(0, 3)}));
}

TEST_CASE("elements of an expanded input are checked one by one though they share a place") {
  const Tensor one = numbers({2});
  const Tensor expanded = alias(one, {3}, {0}, 0);
  // The sum over the place is right; its distribution over the elements is not.
  const auto f = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return 2 * v; },
        [](const Tensor& g, const Tensor&) {
          std::vector<double> values = g.to_vector();
          values = {2 * (values[0] + values[1]), 0, 2 * values[2]};
          return Grads(numbers(values));
        });
  };
  CHECK_FALSE(gradcheck(f, {expanded}).ok);
}

TEST_CASE("the leaves that the caller holds are not touched") {
  const Tensor x = toy::leaf({1, 2}, {2});
  Tape tape;
  passing(gradcheck([](const Inputs& in) { return product(in[0], in[0]); }, {x}));
  CHECK(tape.size() == 0);
  CHECK(x.to_vector() == std::vector<double>{1, 2});
  CHECK(x.storage()->version() == 0);
}

// ---- wrong calls --------------------------------------------------------------------------------

TEST_CASE("inputs must be f64, present, and lead to a floating result; errors of f pass through") {
  const auto square = [](const Inputs& in) { return product(in[0], in[0]); };
  check_throws(ErrorKind::dtype, {"gradcheck", "input 1", "f32 (1)", "f64"}, [&] {
    gradcheck(square, {numbers({1}), from_vector<float>({1}, {1})});
  });
  check_throws(ErrorKind::value, {"no inputs"}, [&] { gradcheck(square, {}); });
  const std::function<Tensor(const Inputs&)> nothing;
  check_throws(ErrorKind::value, {"gradcheck: f holds no function"},
               [&] { gradcheck(nothing, {numbers({1})}); });
  check_throws(ErrorKind::value, {"gradgradcheck: f holds no function"},
               [] { gradgradcheck(CheckedFunction(), {numbers({1})}); });
  const auto no_results = [](const Inputs&) { return Inputs{}; };
  check_throws(ErrorKind::value, {"gradcheck: f has no floating result"},
               [&] { gradcheck(no_results, {numbers({1})}); });
  check_throws(ErrorKind::value, {"gradgradcheck: f has no floating result"},
               [&] { gradgradcheck(no_results, {numbers({1})}); });
  check_throws(ErrorKind::shape, {"product"}, [] {
    gradcheck([](const Inputs& in) { return product(in[0], in[1]); },
              {numbers({1}), numbers({1, 2})});
  });
  check_throws(ErrorKind::value, {"different shapes"}, [] {
    int calls = 0;
    gradcheck([&calls](const Inputs& in) { return ++calls == 3 ? total(in[0]) : scaled(in[0], 2); },
              {numbers({1, 2})});
  });
}

TEST_CASE("NaN and infinity never pass") {
  const auto nan_gradient = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return v; },
        [](const Tensor& g, const Tensor&) { return Grads(scaled(g, NAN)); });
  };
  CHECK_FALSE(gradcheck(nan_gradient, {numbers({1, 2})}).ok);
  const auto infinite_value = [](const Inputs& in) { return scaled(in[0], HUGE_VAL); };
  CHECK_FALSE(gradcheck(infinite_value, {numbers({1, 2})}).ok);
}

// ---- diagnoses ----------------------------------------------------------------------------------

TEST_CASE("diagnosis: sign and constant factor, with the worst element and the Jacobian") {
  const auto times = [](double factor) {
    return [factor](const Inputs& in) {
      return custom(
          in[0], [](double v) { return v * v; },
          [factor](const Tensor& g, const Tensor& x) {
            return Grads(scaled(product(g, x), factor));
          });
    };
  };
  passing(gradcheck(times(2), {matrix(2, 3)}));
  failing(gradcheck(times(-2), {matrix(2, 3)}), Diagnosis::sign);
  const GradcheckReport report = failing(gradcheck(times(4), {matrix(2, 3)}),
                                         Diagnosis::constant_factor, "2 times the right one");
  CHECK(report.input == 0);
  CHECK(report.element.rank() == 2);
  CHECK(report.analytic == doctest::Approx(2 * report.numeric));
  REQUIRE(report.jacobian.rows.size() == 5);
  REQUIRE(report.jacobian.columns.size() == 5);
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 5; ++c)
      CHECK(report.jacobian.analytic[r][c] ==
            doctest::Approx(2 * report.jacobian.numeric[r][c]).epsilon(1e-6));
  CHECK(to_string(report).find("from the tape:") != std::string::npos);
  CHECK(to_string(report).find("from differences:") != std::string::npos);
  failing(gradcheck(times(-2), {matrix(2, 3)}, {.fast = true}), Diagnosis::sign);
}

TEST_CASE("the Jacobian is shown for the result whose gradient is wrong") {
  const auto second_is_wrong = [](const Inputs& in) {
    const Tensor right = scaled(in[0], 2);
    const Tensor wrong = custom(
        in[0], [](double v) { return 3 * v; },
        [](const Tensor& g, const Tensor&) { return Grads(scaled(g, 30)); });
    return Inputs{right, wrong};
  };
  const GradcheckReport report = gradcheck(second_is_wrong, {numbers({1, 2})});
  CHECK_FALSE(report.ok);
  CHECK(report.jacobian.output == 1);
}

TEST_CASE("diagnosis: transposed, square or not") {
  const auto f = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return v * v; },
        [](const Tensor& g, const Tensor& x) {
          const Tensor right = copied("rule", transposed(scaled(product(g, x), 2)));
          return Grads(from_vector(right.to_vector(), x.shape()));
        });
  };
  failing(gradcheck(f, {matrix(3, 3)}), Diagnosis::transposed, "dims 0 and 1");
  failing(gradcheck(f, {matrix(2, 3)}), Diagnosis::transposed, "dims 0 and 1");
}

// y = x * b with b one number, broadcast. Its rule takes the first element instead of the sum.
struct BroadcastNode final : Node {
  BroadcastNode() : Node("broadcast") {}
  Saved x{*this, "x", {1}, "db = sum(g * x)"};
  Saved b{*this, "b", {0}, "dx = g * b"};
  bool sums = true;
  Grads backward(Tensor g, const Wanted&) override {
    const Tensor dx = scaled(g, b.get().item());
    const Tensor all = product(g, x.get());
    const Tensor db = sums ? total(all) : copied("first", alias(all, {}, {}, 0));
    return {dx, db};
  }
};
Tensor broadcast_product(const Tensor& x, const Tensor& b, bool sums) {
  Tensor y = copied("broadcast", x);
  scale_in_place(y.view(), b.item());
  return record<BroadcastNode>(y, {&x, &b}, [&](BroadcastNode& node) {
    node.x.save(x);
    node.b.save(b);
    node.sums = sums;
  });
}

TEST_CASE("diagnosis: missing broadcast reduction") {
  const Inputs inputs{matrix(2, 3), toy::constant(1.5)};
  passing(
      gradcheck([](const Inputs& in) { return broadcast_product(in[0], in[1], true); }, inputs));
  const GradcheckReport report = failing(
      gradcheck([](const Inputs& in) { return broadcast_product(in[0], in[1], false); }, inputs),
      Diagnosis::missing_reduction, "reaches 6 elements of results, but only 1 of them");
  CHECK(report.input == 1);
  CHECK(report.element == Dims{});
}

// y[i] = x[0] + ... + x[i]. Its rule sums from the same end; it should sum from the other.
Tensor running_sum(const Tensor& x) {
  struct RunningSumNode final : Node {
    RunningSumNode() : Node("running_sum") {}
    Grads backward(Tensor g, const Wanted&) override { return {running_sum(g)}; }
  };
  std::vector<double> sums = x.to_vector();
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return record<RunningSumNode>(from_vector(sums, x.shape()), {&x}, [](RunningSumNode&) {});
}

TEST_CASE("diagnosis: results taken for others are no missing reduction") {
  const GradcheckReport report =
      gradcheck([](const Inputs& in) { return running_sum(in[0]); }, {numbers({1, 2, 3, 4})});
  CHECK_FALSE(report.ok);
  CHECK(report.diagnosis == Diagnosis::none);
}

TEST_CASE("diagnosis: the gradient of one of several results is lost") {
  const auto second_is_lost = [](const Inputs& in) {
    const Tensor lost = custom(
        in[0], [](double v) { return 3 * v; },
        [](const Tensor& g, const Tensor&) { return Grads(scaled(g, 0)); });
    return Inputs{scaled(in[0], 2), lost};
  };
  failing(
      gradcheck(second_is_lost, {numbers({1, 2})}), Diagnosis::lost,
      "reaches 2 elements of results, but only 1 of them count: the gradient of a whole result");
}

TEST_CASE("diagnosis: f is NaN, at the inputs or within a step of them") {
  const auto root = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return std::sqrt(v); },
        [](const Tensor& g, const Tensor&) { return Grads(scaled(g, 0.5)); });
  };
  passing(gradcheck(root, {numbers({1, 1})}));
  failing(gradcheck(root, {numbers({1, -1})}), Diagnosis::not_a_number, "result number 1 is NaN");
  const GradcheckReport report =
      failing(gradcheck(root, {numbers({1, 1e-9})}), Diagnosis::not_a_number, "within the step");
  CHECK(to_string(report).starts_with("gradcheck: FAILED: input 0 (1): the tape gives "));
}

TEST_CASE("diagnosis: gradients returned in the wrong order") {
  struct SwappedNode final : Node {
    SwappedNode() : Node("swapped") {}
    Saved a{*this, "a", {0, 1}, ""};
    Saved b{*this, "b", {0, 1}, ""};
    Grads backward(Tensor g, const Wanted&) override {
      const Tensor first = product(g, a.get()), second = product(g, b.get());
      return {first, second};
    }
  };
  const auto f = [](const Inputs& in) {
    Tensor y;
    {
      const Tape::Pause pause;
      y = product(in[0], in[1]);
    }
    return record<SwappedNode>(y, {&in[0], &in[1]}, [&](SwappedNode& node) {
      node.a.save(in[0]);
      node.b.save(in[1]);
    });
  };
  failing(gradcheck(f, {matrix(2, 3), matrix(2, 3, -1)}), Diagnosis::swapped_inputs, "wrong order");
}

TEST_CASE("diagnosis: a gradient that is lost on the way") {
  const auto f = [](const Inputs& in) {
    return accumulate(scaled(in[0], 0), product(in[0].detach(), in[0].detach()));
  };
  failing(gradcheck(f, {numbers({1, 2})}), Diagnosis::lost);
  const auto constant = [](const Inputs& in) { return scaled(in[0].detach(), 2); };
  failing(gradcheck(constant, {numbers({1, 2})}), Diagnosis::lost);
}

TEST_CASE("diagnosis: a kink within the step") {
  const auto absolute = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return std::abs(v); },
        [](const Tensor& g, const Tensor& x) {
          return Grads(elementwise(g, x, [](double gi, double xi) { return xi < 0 ? -gi : gi; }));
        });
  };
  passing(gradcheck(absolute, {numbers({1, -2})}));
  failing(gradcheck(absolute, {numbers({1, 1e-6, -2})}), Diagnosis::kink, "to the left");
  failing(gradcheck(absolute, {numbers({0})}), Diagnosis::kink);
}

TEST_CASE("diagnosis: float32 inside, seen or unseen by the tape") {
  const auto hidden = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return std::sin(static_cast<float>(v)); },
        [](const Tensor& g, const Tensor& x) {
          return Grads(elementwise(g, x, [](double gi, double xi) { return gi * std::cos(xi); }));
        });
  };
  failing(gradcheck(hidden, {numbers({1.1, 2.3, 0.4})}), Diagnosis::float32_noise, "float32");
  const auto seen = [](const Inputs& in) { return to(to(in[0], DType::f32), DType::f64); };
  failing(gradcheck(seen, {numbers({1.1, 2.3, 0.4})}), Diagnosis::float32_noise, "as to does");
}

TEST_CASE("diagnosis: results that change from call to call") {
  int calls = 0;
  const auto f = [&calls](const Inputs& in) { return scaled(in[0], 1 + 0.1 * ++calls); };
  failing(gradcheck(f, {numbers({1, 2})}), Diagnosis::not_deterministic);
}

TEST_CASE("diagnosis: inputs that depend on one another") {
  const auto f = [](const Inputs& in) { return product(in[0], in[1]); };
  const Tensor x = matrix(2, 2);
  failing(gradcheck(f, {x, transposed(x)}), Diagnosis::dependent_inputs,
          "input 0 and input 1 share a storage");
  const Tensor w = toy::leaf({1, 2}, {2});
  Tape tape;
  failing(gradcheck(f, {w, scaled(w, 2)}), Diagnosis::dependent_inputs,
          "input 1 was computed from other tensors");
}

TEST_CASE("diagnosis: an input that f does not use, unless that is allowed") {
  const Tensor captured = numbers({3, 4});
  const auto f = [&captured](const Inputs& in) { return product(in[0], captured); };
  const Inputs inputs{numbers({1, 2}), numbers({3, 4})};
  failing(gradcheck(f, inputs), Diagnosis::unused_input, "input 1");
  passing(gradcheck(f, inputs, {.allow_unused = true}));
}

TEST_CASE("gradgradcheck tells a zero second derivative from an input that nothing depends on") {
  const Tensor captured = numbers({3, 4});
  const auto linear = [&captured](const Inputs& in) { return product(in[0], captured); };
  passing(gradgradcheck(linear, {numbers({1, 2})}));
  const Inputs inputs{numbers({1, 2}), numbers({3, 4})};
  const GradcheckReport report = gradgradcheck(linear, inputs);
  failing(report, Diagnosis::unused_input, "input 1");
  CHECK(report.check == "gradgradcheck");
  passing(gradgradcheck(linear, inputs, {.allow_unused = true}));
  failing(gradgradcheck([&](const Inputs&) { return captured; }, {numbers({1, 2})}),
          Diagnosis::unused_input, "input 0");
}

TEST_CASE("diagnosis: another value under a tape, or for another layout") {
  const auto under_tape = [](const Inputs& in) { return scaled(in[0], Tape::recording() ? 2 : 3); };
  failing(gradcheck(under_tape, {numbers({1, 2})}), Diagnosis::other_value, "under a tape");
  const auto another_shape = [](const Inputs& in) {
    return Tape::recording() ? total(in[0]) : scaled(in[0], 2);
  };
  failing(gradcheck(another_shape, {numbers({1, 2})}), Diagnosis::other_value, "other shapes");
  const auto ignores_strides = [](const Inputs& in) {
    return scaled(alias(in[0], in[0].shape(), contiguous_strides(in[0].shape()), 0), 2);
  };
  failing(gradcheck(ignores_strides, {transposed(matrix(2, 2))}), Diagnosis::other_value);
}

// ---- second order -------------------------------------------------------------------------------

TEST_CASE("gradgradcheck finds a rule that is right but cannot be differentiated again") {
  // The values of the rule are right; what it reads was cut off from the tape.
  const auto f = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return v * v; },
        [](const Tensor& g, const Tensor& x) { return Grads(scaled(product(g, x.detach()), 2)); });
  };
  passing(gradcheck(f, {numbers({1, 2})}));
  const GradcheckReport of_input = failing(gradgradcheck(f, {numbers({1, 2})}), Diagnosis::lost);
  CHECK(of_input.input_name == "input 0");
  const auto g_detached = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return v * v; },
        [](const Tensor& g, const Tensor& x) { return Grads(scaled(product(g.detach(), x), 2)); });
  };
  const GradcheckReport of_upstream =
      failing(gradgradcheck(g_detached, {numbers({1, 2})}), Diagnosis::lost);
  CHECK(of_upstream.input_name == "upstream 0");
}

TEST_CASE("gradgradcheck wants results in f64, whose differences are no noise") {
  const auto narrowed = [](const Inputs& in) { return to(in[0], DType::f32); };
  check_throws(ErrorKind::dtype, {"gradgradcheck", "f32"}, [&] {
    gradgradcheck(narrowed, {numbers({1, 2})});
  });
}

TEST_CASE("gradgradcheck finds a rule that gives another gradient under create_graph") {
  const auto f = [](const Inputs& in) {
    return custom(
        in[0], [](double v) { return v * v; },
        [](const Tensor& g, const Tensor& x) {
          return Grads(scaled(product(g, x), Tape::recording() ? 3 : 2));
        });
  };
  passing(gradcheck(f, {numbers({1, 2})}));
  failing(gradgradcheck(f, {numbers({1, 2})}), Diagnosis::other_value);
}

TEST_CASE("reports write a point in every locale") {
  struct Comma final : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const auto report = [] {
    const auto wrong = [](const std::vector<Tensor>& in) {
      return custom(
          in[0], [](double v) { return v; },
          [](const Tensor& g, const Tensor& x) {
            return Grads{elementwise(g, x, [](double dy, double) { return 1.5 * dy; })};
          });
    };
    return to_string(gradcheck(wrong, {numbers({1, 2.5})}));
  };
  const std::string classic = report();
  CHECK(classic.find("1.5") != std::string::npos);
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string with_commas = report();
  std::locale::global(before);
  CHECK(with_commas == classic);
}
