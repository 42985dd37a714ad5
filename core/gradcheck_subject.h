// The function that gradcheck looks at, seen as a function of numbers. Internal to gradcheck.
#pragma once

#include <tapehead/core/gradcheck.h>
#include <tapehead/core/tape.h>

#include <numeric>
#include <vector>

namespace tapehead::detail {

using Values = std::vector<double>;

/// Where one floating result stands among all results laid end to end.
struct Segment {
  Shape shape;
  DType dtype = DType::f64;
  std::size_t begin = 0;
  bool operator==(const Segment&) const = default;
};

/// Results laid end to end, with where each of them stands.
struct Results {
  std::vector<Segment> segments;
  Values values;
};

/// Numbers with absolute values in [0.5, 1.5) and random signs: none of them hides what it weighs.
Values random_weights(std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// The sum of products, element by element.
inline double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

class Subject {
 public:
  /// `check`: the function that was called, for errors.
  Subject(const char* check, const CheckedFunction& f, const std::vector<Tensor>& inputs);

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Values>& point() const { return point_; }
  /// f at point(), as evaluate() gives it.
  const Results& base() const { return base_; }

  /// f at `point`, from row-major inputs and without a tape. ValueError when the number or the
  /// shapes of the results differ from those of base().
  Results evaluate(const std::vector<Values>& point) const;

  /// The derivative of every result by one element: a central difference of half-width
  /// eps * max(1, abs(x)).
  Values differences(std::size_t input, std::size_t element, double eps) const;

  /// The same along a direction of all inputs together.
  Values differences(const std::vector<Values>& direction, double eps) const;

  /// f under a tape of its own, on leaves with the layouts of the inputs.
  class Run {
   public:
    explicit Run(const Subject& subject);
    const Results& results() const { return results_; }
    /// The gradients of sum(upstream * results), one list an input.
    std::vector<Values> gradients(const Values& upstream);
    /// Whether any result depends on the input. Known after gradients().
    bool reached(std::size_t input) const { return reached_[input]; }
    Graph graph() const { return tape_.graph(); }

   private:
    Tape tape_;
    std::vector<Tensor> leaves_;
    std::vector<Tensor> outputs_;
    Results results_;
    std::vector<bool> reached_;
  };

 private:
  Results call(const std::vector<Values>& point) const;

  const char* check_;
  const CheckedFunction& f_;
  const std::vector<Tensor>& inputs_;
  std::vector<Values> point_;
  Results base_;
};

/// What is known when a check has failed.
struct Evidence {
  const Subject& subject;
  const GradcheckOptions& options;
  Values upstream;
  std::vector<Values> analytic, numeric;  // gradients, one list an input
  std::size_t input = 0, element = 0;     // the worst element
};

/// Fills in the diagnosis, its explanation and the Jacobian.
void diagnose(const Evidence& evidence, GradcheckReport& report);

}  // namespace tapehead::detail
