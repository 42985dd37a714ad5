// The table of operation cases: one row an operation, from which every generic test follows (first
// and second derivatives, layouts, f32, the tape, saved tensors, dry runs, mutations of the rule).
//
// To add an operation, add a row to the file of its family, tests/operation_cases_*.cpp. The build
// fails for an operation in ops/*.h that has no row (tests/support/operations_have_rows.cmake).
//
//     row("softmax", {real({3, 4})}, [](In x) { return softmax(std::move(x[0]), -1); })
//         .saves("y").also({1}).also({0, 3}).also({})
//
// The name is the operation's, with a slash and a word where an operation has several rows.
#pragma once

#include <tapehead/core/tensor.h>

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tapehead::tests {

/// The inputs, by value: an operation that can work in place is written with std::move(x[0]), and
/// does so when the caller holds no other handle.
using In = std::vector<Tensor>;

/// Where the values of an input come from. Random, the same at each call.
enum class Domain {
  real,         ///< in (-2, 2)
  positive,     ///< in (0.5, 2.5)
  probability,  ///< in (0.05, 0.95)
  apart,        ///< far from each other and from 0, for functions with kinks or ties
  index,        ///< whole numbers below a limit, i64
  mask,         ///< bool, some of each
};

/// How to make one input.
struct Input {
  Domain domain = Domain::real;
  Shape shape;
  std::int64_t limit = 0;  ///< of an index
  bool fixed = false;      ///< no gradient flows to it though it is floating

  bool is_differentiable() const {
    return domain != Domain::index && domain != Domain::mask && !fixed;
  }
};

inline Input real(const Shape& shape) { return {Domain::real, shape}; }
inline Input positive(const Shape& shape) { return {Domain::positive, shape}; }
inline Input probability(const Shape& shape) { return {Domain::probability, shape}; }
inline Input apart(const Shape& shape) { return {Domain::apart, shape}; }
inline Input index(const Shape& shape, std::int64_t limit) { return {Domain::index, shape, limit}; }
inline Input mask(const Shape& shape) { return {Domain::mask, shape}; }
inline Input fixed(Input input) {
  input.fixed = true;
  return input;
}

class OperationCase {
 public:
  using Function = std::function<std::vector<Tensor>(In)>;

  OperationCase(std::string name, std::vector<Input> inputs, Function call)
      : name_(std::move(name)), inputs_(std::move(inputs)), call_(std::move(call)) {}

  /// The contract: the names of what is saved when every gradient is wanted, in the order in which
  /// it is saved, "x, rstd". Slots of an operation inside that has another name are written
  /// "matmul.a". Nothing is saved unless this says so.
  OperationCase& saves(std::string names) { return saved_ = std::move(names), *this; }

  /// Other shapes of the inputs that the call takes as well: size one, empty, 0-d, broadcast.
  OperationCase& also(const Shape& a) { return shapes_.push_back({a}), *this; }
  OperationCase& also(const Shape& a, const Shape& b) { return shapes_.push_back({a, b}), *this; }
  OperationCase& also(const Shape& a, const Shape& b, const Shape& c) {
    return shapes_.push_back({a, b, c}), *this;
  }

  /// The largest error of f32 against f64 that is right, relative to the largest element of the
  /// tensor; the default is eight roundings, which covers a formula of a few factors.
  OperationCase& f32_tolerance(double tolerance) { return f32_tolerance_ = tolerance, *this; }

  /// The operation takes tensors of every dtype (views, copies): else i64 is a DTypeError.
  OperationCase& any_dtype() { return any_dtype_ = true, *this; }

  const std::string& name() const { return name_; }
  /// The name up to the slash.
  std::string operation() const { return name_.substr(0, name_.find('/')); }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::string& saved() const { return saved_; }
  double f32_tolerance() const { return f32_tolerance_; }
  bool takes_any_dtype() const { return any_dtype_; }
  std::vector<Tensor> call(In inputs) const { return call_(std::move(inputs)); }

  /// The shapes of the row itself, then those of also().
  std::vector<std::vector<Shape>> shapes() const;

 private:
  std::string name_;
  std::vector<Input> inputs_;
  Function call_;
  std::string saved_;
  std::vector<std::vector<Shape>> shapes_;
  double f32_tolerance_ = 8 * 0x1p-24;
  bool any_dtype_ = false;
};

/// A row; the call returns a Tensor or a std::vector<Tensor>.
template <class F>
OperationCase row(std::string name, std::vector<Input> inputs, F call) {
  if constexpr (std::same_as<std::invoke_result_t<F, In>, Tensor>)
    return {std::move(name), std::move(inputs),
            [call = std::move(call)](In x) { return std::vector<Tensor>{call(std::move(x))}; }};
  else return {std::move(name), std::move(inputs), std::move(call)};
}

/// A function of one tensor, element by element, with the shapes that all of them take.
OperationCase pointwise(std::string name, std::function<Tensor(Tensor)> f, const std::string& saves,
                        Domain domain = Domain::real);

/// A function of two tensors that broadcast.
OperationCase broadcast(std::string name, Tensor (*f)(Tensor, Tensor), const std::string& saves,
                        Domain a = Domain::real, Domain b = Domain::real);
OperationCase broadcast(std::string name, Tensor (*f)(const Tensor&, const Tensor&),
                        const std::string& saves, Domain a = Domain::real, Domain b = Domain::real);

using Rows = std::vector<OperationCase>;
Rows pointwise_rows();
Rows binary_rows();
Rows reduce_rows();
Rows matmul_rows();
Rows neural_rows();
Rows view_rows();
Rows index_rows();

/// Every row of the table.
const Rows& operation_cases();

}  // namespace tapehead::tests
