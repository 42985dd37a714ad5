#include <tapehead/core/gradcheck_subject.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace tapehead {
namespace detail {
namespace {

bool same_bits(const Values& a, const Values& b) {
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

void check_arguments(const char* check, const CheckedFunction& f, const std::vector<Tensor>& inputs,
                     const GradcheckOptions& options) {
  if (!f) throw ValueError(check, "f holds no function");
  const auto positive = [](double x) { return x > 0 && std::isfinite(x); };
  if (!positive(options.eps))
    throw ValueError(check, "eps " + format_number(options.eps) + " must be positive and finite");
  for (const double tolerance : {options.rtol, options.atol})
    if (!(tolerance == 0 || positive(tolerance)))
      throw ValueError(
          check, "a tolerance of " + format_number(tolerance) + " must be finite and not negative");
  if (inputs.empty()) throw ValueError(check, "there are no inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_dtype(check, "input " + std::to_string(i), inputs[i], DType::f64);
}

class Check {
 public:
  Check(const char* name, const CheckedFunction& f, const std::vector<Tensor>& inputs,
        std::size_t first_upstream, const GradcheckOptions& options)
      : subject_(name, f, inputs), first_upstream_(first_upstream), options_(options) {
    if (subject_.base().segments.empty()) throw ValueError(name, "f has no floating result");
  }

  const Results& base() const { return subject_.base(); }

  // The failure that no result depends on an input, unless that is allowed.
  std::optional<GradcheckReport> unused_input() const {
    Subject::Run taped(subject_);
    taped.gradients(random_weights(base().values.size(), options_.seed, 0));
    return unused_input(taped);
  }

  GradcheckReport run() {
    Subject::Run taped(subject_);
    if (const auto problem = problem_before_differences(taped)) return *problem;
    upstream_ = random_weights(subject_.base().values.size(), options_.seed, 0);
    analytic_ = taped.gradients(upstream_);
    if (const auto unused = unused_input(taped)) return *unused;
    if (options_.fast) {
      const GradcheckReport report = compare_direction();
      if (report.ok || !options_.diagnose) return report;
    }
    return compare_elements();
  }

 private:
  double tolerance(double numeric) const {
    return options_.atol + options_.rtol * std::abs(numeric);
  }

  std::string input_name(std::size_t input) const {
    return input < first_upstream_ ? "input " + std::to_string(input)
                                   : "upstream " + std::to_string(input - first_upstream_);
  }

  static GradcheckReport failed(Diagnosis diagnosis, std::string explanation) {
    GradcheckReport report;
    report.ok = false;
    report.diagnosis = diagnosis;
    report.explanation = std::move(explanation);
    return report;
  }

  // What would make the comparison of gradients meaningless.
  std::optional<GradcheckReport> problem_before_differences(const Subject::Run& taped) const {
    const std::vector<Tensor>& inputs = subject_.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad() && !inputs[i].is_leaf())
        return failed(Diagnosis::dependent_inputs,
                      input_name(i) +
                          " was computed from other tensors, and is looked at as if it "
                          "could be varied alone; pass x.detach() if that is meant");
      for (std::size_t k = 0; k < i; ++k)
        if (inputs[k].storage() == inputs[i].storage())
          return failed(Diagnosis::dependent_inputs,
                        input_name(k) + " and " + input_name(i) +
                            " share a storage: neither can be varied alone; pass copies, or write "
                            "f as a function of one of them");
    }
    const Values& values = subject_.base().values;
    const auto nan = std::find_if(values.begin(), values.end(), [](double x) { return x != x; });
    if (nan != values.end())
      return failed(Diagnosis::not_a_number,
                    "result number " + std::to_string(nan - values.begin()) +
                        " is NaN: the inputs lie outside the domain of f, or f has a fault");
    const Results again = subject_.evaluate(subject_.point());
    if (!same_bits(again.values, subject_.base().values))
      return failed(Diagnosis::not_deterministic,
                    "two calls of f with the same inputs gave different results; random numbers "
                    "must come from a generator that f seeds itself");
    return problem_of_values(taped.results());
  }

  std::optional<GradcheckReport> problem_of_values(const Results& taped) const {
    const Results& base = subject_.base();
    if (taped.segments != base.segments)
      return failed(Diagnosis::other_value,
                    "f gives results of other shapes or dtypes under a tape than without one");
    for (std::size_t k = 0; k < base.values.size(); ++k) {
      const double difference = std::abs(taped.values[k] - base.values[k]);
      if (difference <= tolerance(base.values[k]) || same_bits({taped.values[k]}, {base.values[k]}))
        continue;
      return failed(Diagnosis::other_value,
                    "result number " + std::to_string(k) + " is " + format_number(taped.values[k]) +
                        " under a tape with the inputs as they lie in memory, and " +
                        format_number(base.values[k]) +
                        " without a tape on row-major copies of them");
    }
    return std::nullopt;
  }

  // By the values: moves every element of the input at once.
  bool depends_on(std::size_t input) const {
    std::vector<Values> direction = subject_.point();
    for (std::size_t i = 0; i < direction.size(); ++i)
      direction[i] = i == input ? random_weights(direction[i].size(), options_.seed, 1)
                                : Values(direction[i].size(), 0.0);
    const Values slope = subject_.differences(direction, options_.eps);
    return std::any_of(slope.begin(), slope.end(), [](double s) { return s != 0; });
  }

  std::optional<GradcheckReport> unused_input(const Subject::Run& taped) const {
    if (options_.allow_unused) return std::nullopt;
    for (std::size_t i = 0; i < subject_.point().size(); ++i) {
      if (taped.reached(i) || subject_.point()[i].empty() || depends_on(i)) continue;
      GradcheckReport report =
          failed(Diagnosis::unused_input,
                 "no result depends on " + input_name(i) +
                     "; does f use a tensor from outside instead of its argument? (allow_unused "
                     "accepts this)");
      report.input = i;
      report.input_name = input_name(i);
      return report;
    }
    return std::nullopt;
  }

  GradcheckReport compare_direction() const {
    std::vector<Values> direction;
    for (std::size_t i = 0; i < analytic_.size(); ++i)
      direction.push_back(random_weights(analytic_[i].size(), options_.seed, 2 + i));
    GradcheckReport report;
    report.input_name = "all inputs, along a random direction";
    for (std::size_t i = 0; i < analytic_.size(); ++i)
      report.analytic += dot(analytic_[i], direction[i]);
    report.numeric = dot(upstream_, subject_.differences(direction, options_.eps));
    report.tolerance = tolerance(report.numeric);
    report.ok = std::abs(report.analytic - report.numeric) <= report.tolerance;
    return report;
  }

  GradcheckReport compare_elements() const {
    Evidence evidence{subject_, options_, upstream_, analytic_, analytic_};
    double worst = -1;
    for (std::size_t i = 0; i < analytic_.size(); ++i)
      for (std::size_t e = 0; e < analytic_[i].size(); ++e) {
        const double numeric = dot(upstream_, subject_.differences(i, e, options_.eps));
        evidence.numeric[i][e] = numeric;
        double error = std::abs(analytic_[i][e] - numeric) / tolerance(numeric);
        if (std::isnan(error)) error = HUGE_VAL;
        if (error <= worst) continue;
        worst = error;
        evidence.input = i;
        evidence.element = e;
      }
    return describe(evidence, worst);
  }

  GradcheckReport describe(const Evidence& evidence, double worst) const {
    GradcheckReport report;
    report.ok = worst <= 1;
    report.input = evidence.input;
    report.input_name = input_name(evidence.input);
    if (worst < 0) return report;  // no elements at all
    report.element = unravel(evidence.element, subject_.inputs()[evidence.input].shape());
    report.analytic = evidence.analytic[evidence.input][evidence.element];
    report.numeric = evidence.numeric[evidence.input][evidence.element];
    report.tolerance = tolerance(report.numeric);
    if (std::isnan(report.numeric)) {
      report.diagnosis = Diagnosis::not_a_number;
      report.explanation =
          "f is NaN within the step: move the input away from the edge of its domain";
    } else if (!report.ok && options_.diagnose) {
      diagnose(evidence, report);
    }
    return report;
  }

  const Subject subject_;
  const std::size_t first_upstream_;
  const GradcheckOptions& options_;
  Values upstream_;
  std::vector<Values> analytic_;
};

// (inputs, upstream) -> the gradients of sum(upstream * f(inputs)). Under the tape of a check the
// gradients are recorded there; for values alone the function walks a tape of its own.
CheckedFunction gradient_function(const CheckedFunction& f, std::size_t inputs) {
  return [&f, inputs](const std::vector<Tensor>& arguments) {
    const std::vector<Tensor> x(arguments.begin(),
                                arguments.begin() + static_cast<std::ptrdiff_t>(inputs));
    std::optional<Tape> own;
    const bool is_recording = Tape::recording() != nullptr;
    if (!is_recording) own.emplace();
    std::vector<Tensor> ys, seeds;
    std::size_t next = inputs;
    for (Tensor& y : f(x)) {
      if (!is_floating(y.dtype())) continue;
      const Tensor& seed = arguments[next++];
      if (!y.requires_grad()) continue;
      ys.push_back(std::move(y));
      seeds.push_back(seed);
    }
    const Gradients found =
        Tape::recording()->gradient(ys, x, seeds, {.create_graph = is_recording});
    std::vector<Tensor> gradients;
    for (const Tensor& input : x) gradients.push_back(found[input]);
    return gradients;
  };
}

}  // namespace

GradcheckReport gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  check_arguments("gradcheck", f, inputs, options);
  return Check("gradcheck", f, inputs, inputs.size(), options).run();
}

GradcheckReport gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  check_arguments("gradgradcheck", f, inputs, options);
  const Check first("gradgradcheck", f, inputs, inputs.size(), options);
  if (auto unused = first.unused_input()) {
    unused->check = "gradgradcheck";
    return *unused;
  }
  const Results& results = first.base();
  std::vector<Tensor> arguments = inputs;
  const Values upstream = random_weights(results.values.size(), options.seed, 1u << 16);
  for (const Segment& segment : results.segments) {
    const auto begin = upstream.begin() + static_cast<std::ptrdiff_t>(segment.begin);
    if (segment.dtype != DType::f64)
      throw DTypeError("gradgradcheck",
                       "a result of f is " + std::string(to_string(segment.dtype)) +
                           ": differences of its gradients would be noise; let f return f64");
    arguments.push_back(from_vector(Values(begin, begin + numel(segment.shape)), segment.shape));
  }
  GradcheckOptions second = options;
  second.allow_unused = true;  // the gradient of a linear function depends on the upstream alone
  GradcheckReport report =
      Check("gradgradcheck", gradient_function(f, inputs.size()), arguments, inputs.size(), second)
          .run();
  report.check = "gradgradcheck";
  return report;
}

}  // namespace detail

std::string_view to_string(Diagnosis diagnosis) {
  switch (diagnosis) {
    case Diagnosis::none: return "none";
    case Diagnosis::not_deterministic: return "not deterministic";
    case Diagnosis::dependent_inputs: return "inputs that depend on one another";
    case Diagnosis::unused_input: return "unused input";
    case Diagnosis::other_value: return "another value";
    case Diagnosis::not_a_number: return "not a number";
    case Diagnosis::kink: return "kink within the step";
    case Diagnosis::float32_noise: return "float32 noise";
    case Diagnosis::lost: return "lost gradient";
    case Diagnosis::sign: return "sign";
    case Diagnosis::constant_factor: return "constant factor";
    case Diagnosis::swapped_inputs: return "swapped inputs";
    case Diagnosis::transposed: return "transposed";
    case Diagnosis::missing_reduction: return "missing reduction";
  }
  return "unknown";
}

}  // namespace tapehead
