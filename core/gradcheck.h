// Gradient testing: does the tape's gradient agree with finite differences of the values?
//
//     auto report = gradcheck([](const std::vector<Tensor>& in) { return my_op(in[0], in[1]); },
//                             {x, w});
//     if (!report.ok) std::cerr << to_string(report);
//
// For a random upstream gradient v of every result, the tape's gradient of sum(v * f(inputs)) is
// compared, element by element, with central differences. Both need f64, so f64 inputs are asked
// for. f may be any function of its arguments that gives the same result at each call; random
// numbers must come from a generator that it seeds itself.
//
// The tape runs on copies of the inputs that keep strides and offset (an expanded input stays
// expanded); the differences run on row-major copies, one element changed at a time. So elements
// that share a place are checked one by one, and a result that depends on the layout is found.
#pragma once

#include <tapehead/core/tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tapehead {

/// What is differentiated: results of the inputs. Results that are not floating are ignored.
using CheckedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// How gradcheck and gradgradcheck look.
struct GradcheckOptions {
  /// Half the width of a difference, times max(1, abs(x)). At 1e-5 both the truncation (eps^2) and
  /// the rounding (1e-16 / eps) of a well-scaled function stay near 1e-10.
  double eps = 1e-5;
  /// An element passes when abs(analytic - numeric) <= atol + rtol * abs(numeric). NaN never
  /// passes.
  double rtol = 1e-6;
  double atol = 1e-7;  ///< see rtol
  /// One difference along a random direction of all inputs together instead of one an element. It
  /// finds a wrong gradient as surely, and elements are looked at only to diagnose a failure.
  bool fast = false;
  /// Accept an input on which no result depends. Else it is a failure: such a check proves nothing.
  bool allow_unused = false;
  /// Look for the cause of a failure and fill in the Jacobian; costs more calls of f.
  bool diagnose = true;
  /// Of the upstream gradients and directions.
  std::uint64_t seed = 0;
};

/// The cause of a failure, where the pattern is recognisable.
enum class Diagnosis : std::uint8_t {
  none,
  not_deterministic,  ///< two calls of f with the same inputs gave different results
  dependent_inputs,   ///< inputs share a storage or were computed from others
  unused_input,       ///< no result depends on an input
  other_value,        ///< f gives another value under a tape, or for another layout of the inputs
  not_a_number,       ///< f, or a difference of it, is NaN: there is no slope to compare with
  kink,               ///< f has a kink or a jump within the step
  float32_noise,      ///< something inside f computes in float32
  lost,               ///< the gradient is zero: something detaches
  sign,               ///< the negative of the right gradient
  constant_factor,    ///< the right gradient times a number
  swapped_inputs,     ///< the gradient of another input
  transposed,         ///< the right numbers with two dims exchanged
  missing_reduction,  ///< only part of the results that an element reached was summed
};

/// "none", "not deterministic", "missing reduction"...
std::string_view to_string(Diagnosis diagnosis);

/// d result / d input near the worst element, from the tape and from differences.
struct JacobianExcerpt {
  std::size_t output = 0;                     ///< which of f's floating results the rows belong to
  std::vector<Dims> rows;                     ///< elements of the result
  std::vector<Dims> columns;                  ///< elements of the input
  std::vector<std::vector<double>> analytic;  ///< by row and column, from the tape
  std::vector<std::vector<double>> numeric;   ///< from differences
};

/// What gradcheck found.
struct GradcheckReport {
  bool ok = true;                   ///< whether every element passed
  std::string check = "gradcheck";  ///< or "gradgradcheck"
  /// The element with the largest error relative to its tolerance, also when all is well.
  std::size_t input = 0;
  std::string input_name;                 ///< "input 0", or "upstream 0" in gradgradcheck
  Dims element;                           ///< its position
  double analytic = 0;                    ///< its derivative by the tape
  double numeric = 0;                     ///< by differences
  double tolerance = 0;                   ///< what the two may differ by
  Diagnosis diagnosis = Diagnosis::none;  ///< of a failure
  std::string explanation;                ///< the diagnosis in one sentence, with its evidence
  JacobianExcerpt jacobian;               ///< around the element, of a failure
};

/// "ok" with the largest error, or the worst element, the diagnosis and the Jacobian around it, a
/// line each.
std::string to_string(const GradcheckReport& report);

namespace detail {

GradcheckReport gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options);
GradcheckReport gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options);

template <class F>
CheckedFunction as_checked_function(F f) {
  // A std::function or a pointer that holds nothing stays recognisable as such.
  if constexpr (std::constructible_from<bool, const F&>)
    if (!static_cast<bool>(f)) return {};
  if constexpr (std::same_as<std::invoke_result_t<F&, const std::vector<Tensor>&>, Tensor>) {
    return [f = std::move(f)](const std::vector<Tensor>& inputs) mutable {
      return std::vector<Tensor>{f(inputs)};
    };
  } else {
    return f;
  }
}

}  // namespace detail

/// Checks the first derivatives of f, which takes a const std::vector<Tensor>& and returns a Tensor
/// or a std::vector<Tensor>. DTypeError: an input is not f64. ValueError: f holds no function, no
/// inputs, no floating result, eps not positive, a negative tolerance, or calls of f that give
/// different numbers or shapes of results. Whatever f throws passes through.
template <class F>
GradcheckReport gradcheck(F f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {}) {
  return detail::gradcheck(detail::as_checked_function(std::move(f)), inputs, options);
}

/// Checks the second derivatives: the function (inputs, upstream) -> gradients of sum(upstream *
/// f(inputs)) is differentiated under create_graph with respect to the inputs and to the upstream
/// gradients, along a random direction of the gradients. The differences use the gradients as they
/// are without create_graph, so the two ways to compute them are compared as well. An input whose
/// second derivative is zero passes; one that no result depends on fails unless allow_unused.
/// Errors as of gradcheck, and DTypeError: a floating result is not f64.
template <class F>
GradcheckReport gradgradcheck(F f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {}) {
  return detail::gradgradcheck(detail::as_checked_function(std::move(f)), inputs, options);
}

}  // namespace tapehead
