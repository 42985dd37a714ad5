#include "runner.h"

#include <tapehead/core/tape.h>
#include <tapehead/nn/io/strict_json.h>

#include <cmath>
#include <limits>

#include "inputs.h"

namespace tapehead::program {
namespace {

/// The case is not met.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message, std::optional<Mismatch> where = {})
      : std::runtime_error(message), mismatch(std::move(where)) {}
  std::optional<Mismatch> mismatch;
};

// ---- comparing ----------------------------------------------------------------------------------

// By how many tolerances got is away from want: above 1 it is out, and equal infinities and two
// NaNs are 0 away.
double distance(double got, double want, double rtol, double atol) {
  constexpr double far = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : far;
  if (got == want) return 0;
  if (std::isinf(got) || std::isinf(want)) return far;
  const double tolerance = atol + rtol * std::abs(want);
  const double error = std::abs(got - want);
  return error <= tolerance ? 0 : tolerance > 0 ? error / tolerance : far;
}

template <class T, class Distance>
void compare_elements(const std::string& what, const Tensor& got, const Tensor& want,
                      Distance&& away) {
  const std::vector<T> g = got.to_vector<T>(), w = want.to_vector<T>();
  Mismatch worst{what, "", 0, 0, 0, static_cast<std::int64_t>(g.size())};
  double furthest = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double far = away(g[i], w[i]);
    if (far == 0) continue;
    ++worst.differing;
    if (far <= furthest) continue;
    furthest = far;
    worst.index = to_string(unravel(i, got.shape()));
    worst.got = static_cast<double>(g[i]);
    worst.want = static_cast<double>(w[i]);
  }
  if (worst.differing == 0) return;
  throw Failure(what + " at " + worst.index + ": got " + format_number(worst.got) + ", want " +
                    format_number(worst.want) + "; " + std::to_string(worst.differing) + " of " +
                    std::to_string(worst.elements) + " elements are out of tolerance",
                worst);
}

void compare(const std::string& what, const Tensor& got, const CaseTensor& wanted,
             const Expected& expected) {
  const Tensor& want = wanted.values;
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    throw Failure(what + ": got " + describe(got) + ", want " + describe(want));
  if (got.dtype() == DType::i64)
    return compare_elements<std::int64_t>(what, got, want,
                                          [](auto g, auto w) { return g == w ? 0.0 : 1.0; });
  const bool exact = got.dtype() == DType::boolean;
  compare_elements<double>(what, got, want, [&](double g, double w) {
    return distance(g, w, exact ? 0 : expected.rtol, exact ? 0 : expected.atol);
  });
}

// ---- running ------------------------------------------------------------------------------------

std::vector<Tensor> call(const Operations& table, const std::string& name, Call& c) {
  const Operation* operation = table.find(name);
  if (!operation) throw Failure("unknown operation \"" + name + "\"");
  std::vector<Tensor> outputs = (*operation)(c);
  c.finish();
  return outputs;
}

std::vector<Tensor> leaves_of(const std::vector<Call::Input>& inputs,
                              const std::string& except = "") {
  std::vector<Tensor> leaves;
  for (const Call::Input& input : inputs) {
    bool known = input.name == except || !input.tensor.is_leaf();
    for (const Tensor& leaf : leaves) known = known || leaf.is_same(input.tensor);
    if (!known) leaves.push_back(input.tensor);
  }
  return leaves;
}

// The gradients of the sum over k of sum(outputs[k] * seeds[k]). What does not depend on any leaf
// adds nothing, and a tape would not know it.
Gradients gradients(Tape& tape, const std::vector<Tensor>& outputs,
                    const std::vector<Tensor>& seeds, const std::vector<Tensor>& wrt,
                    const GradientOptions& options = {}) {
  std::vector<Tensor> fed, with;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!seeds[i].defined() || !outputs[i].requires_grad()) continue;
    fed.push_back(outputs[i]);
    with.push_back(seeds[i]);
  }
  if (!fed.empty()) return tape.gradient(fed, wrt, with, options);
  Gradients none;
  for (const Tensor& leaf : wrt) none.insert(leaf, {});
  return none;
}

// (inputs, upstream) -> the first-order gradients, recorded so that they can be differentiated.
std::vector<Tensor> first_gradients(const Case& c, const std::vector<Call::Input>& inputs,
                                    const std::string& where, const Operations& table, Tape& tape) {
  Call outer(where, inputs, *c.args);
  const Tensor upstream = outer["upstream"];
  std::vector<Call::Input> inner_inputs;
  for (const Call::Input& input : inputs)
    if (input.name != "upstream") inner_inputs.push_back(input);
  Call inner(where, inner_inputs, outer.object("args"));
  const std::vector<Tensor> y = call(table, outer.text("of"), inner);
  if (y.size() != 1) throw Failure("double_backward takes operations with one output");
  const std::vector<Tensor> wrt = leaves_of(inputs, "upstream");
  const Gradients g = gradients(tape, y, {upstream}, wrt, {.create_graph = true});
  std::vector<Tensor> outputs;
  for (const Tensor& leaf : wrt) outputs.push_back(g[leaf]);
  return outputs;
}

std::vector<Tensor> evaluate(const Case& c, const std::vector<Call::Input>& inputs,
                             const std::string& where, const Operations& table, Tape& tape) {
  if (c.operation == "double_backward") return first_gradients(c, inputs, where, table, tape);
  Call direct(where, inputs, *c.args);
  return call(table, c.operation, direct);
}

void check_outputs(const std::vector<Tensor>& outputs, const Expected& expected) {
  if (outputs.size() != expected.outputs.size())
    throw Failure("got " + std::to_string(outputs.size()) + " outputs, want " +
                  std::to_string(expected.outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    compare("output " + std::to_string(i), outputs[i], expected.outputs[i], expected);
}

void check_gradients(Tape& tape, const std::vector<Tensor>& outputs,
                     const std::vector<Call::Input>& inputs, const Expected& expected,
                     const std::string& where) {
  if (expected.grads.empty()) return;
  std::vector<Tensor> seeds;
  for (const std::optional<CaseTensor>& seed : expected.grad_outputs)
    seeds.push_back(seed ? build(*seed, where) : Tensor{});
  const Gradients got = gradients(tape, outputs, seeds, leaves_of(inputs));
  for (const Call::Input& input : inputs)
    if (const auto want = expected.grads.find(input.name); want != expected.grads.end())
      compare("gradient of " + input.name, got[input.tensor], want->second, expected);
}

// An operation reads its inputs; also one that throws.
void check_inputs_unchanged(const Case& c, const std::vector<Call::Input>& inputs) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (!holds_values(inputs[i].tensor, c.inputs[i].values))
      throw Failure("the input " + c.inputs[i].name + " was written to");
}

void expect_error(const Case& c, const std::vector<Call::Input>& inputs, const std::string& where,
                  const Operations& table) {
  const std::string want = std::string(to_string(c.error)) + " error";
  try {
    Tape tape;
    (void)evaluate(c, inputs, where, table, tape);
  } catch (const Error& error) {
    if (error.kind() == c.error) return;
    throw Failure("got a " + std::string(to_string(error.kind())) + " error (" + error.what() +
                  "), want a " + want);
  }
  throw Failure("it returned, want a " + want);
}

void run(const Case& c, const std::string& where, const Operations& table) {
  const std::vector<Call::Input> inputs = build_inputs(c, where);
  if (c.expected) {
    Tape tape;
    const std::vector<Tensor> outputs = evaluate(c, inputs, where, table, tape);
    check_outputs(outputs, *c.expected);
    check_gradients(tape, outputs, inputs, *c.expected, where);
  } else {
    expect_error(c, inputs, where, table);
  }
  check_inputs_unchanged(c, inputs);
}

}  // namespace

CaseResult run_case(const Case& c, const std::string& source, const Operations& table) {
  try {
    run(c, source + ": case " + c.name, table);
  } catch (const CaseFormatError&) {
    throw;
  } catch (const io::JsonError& error) {  // of a Call
    throw CaseFormatError(error.what());
  } catch (const Failure& failure) {
    return {c.name, false, failure.what(), failure.mismatch};
  } catch (const std::exception& error) {
    return {c.name, false, std::string("threw: ") + error.what(), {}};
  }
  return {c.name, true, "", {}};
}

}  // namespace tapehead::program
