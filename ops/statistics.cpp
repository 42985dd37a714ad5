#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/statistics.h>

#include <cmath>
#include <limits>

namespace tapehead {
namespace {

using detail::deviation;
using detail::ReducedDims;
using detail::ReduceNode;
using detail::view_as;

// ---- var and std --------------------------------------------------------------------------------

double degrees_of_freedom(std::int64_t count, double correction) {
  return std::max(0.0, static_cast<double>(count) - correction);
}

// g / y, and 0 where y is 0, at every order of derivative.
Tensor quotient_or_zero(const Tensor& g, const Tensor& y) {
  const Tensor is_zero = eq(y, 0.0);
  // The divisor is replaced as well: an unselected 0/0 would come back in the second derivative.
  const Tensor divisor = masked_fill(y, is_zero, 1);
  return masked_fill(div(g, divisor), is_zero, 0);
}

class SpreadNode : public ReduceNode {
 public:
  using ReduceNode::ReduceNode;
  double correction = 1;

  std::vector<Graph::Attribute> attributes() const override {
    auto result = ReduceNode::attributes();
    result.push_back({"correction", correction});
    return result;
  }

 protected:
  double freedom() const { return degrees_of_freedom(count(), correction); }
};

struct VarNode final : SpreadNode {
  static constexpr bool root = false;
  VarNode() : SpreadNode("var") {}
  Saved x{*this, "x", {0}, "dx = g * 2 / (n - correction) * (x - mean)"};

  void save(const Tensor& input, const Tensor&) { x.save(input); }
  Grads backward(Tensor g, const Wanted&) override {
    const Tensor scale = mul(std::move(g), 2.0 / freedom());
    Tensor d = deviation(x.get(), dims());
    return {mul(std::move(d), with_dims(scale))};
  }
};

struct StdNode final : SpreadNode {
  static constexpr bool root = true;
  StdNode() : SpreadNode("std") {}
  Saved x{*this, "x", {0}, "dx = g / ((n - correction) * y) * (x - mean), 0 where y = 0"};
  Saved y{*this, "y", {0}, "dx = g / ((n - correction) * y) * (x - mean), 0 where y = 0"};

  void save(const Tensor& input, const Tensor& output) {
    x.save(input);
    y.save(output);
  }
  Grads backward(Tensor g, const Wanted&) override {
    const Tensor scale = mul(quotient_or_zero(g, y.get()), 1.0 / freedom());
    Tensor d = deviation(x.get(), dims());
    return {mul(std::move(d), with_dims(scale))};
  }
};

template <class NodeType>
Tensor spread_of(const char* operation, const Tensor& x, const Dims& over, double correction,
                 bool keepdim) {
  check_floating(operation, "x", x);
  const ReducedDims dims(operation, x, over, keepdim);
  // In double: a rounded mean would add the square of its error to every deviation.
  Tensor center = empty(operation, dims.kept, DType::f64);
  Tensor y = empty(operation, dims.result, x.dtype());
  launch([&] {
    const auto count = static_cast<double>(dims.count);
    kernels::sum(x.view(), center.view(), count);
    if (x.dtype() == DType::f64) kernels::refine_mean(x.view(), center.view(), count);
    kernels::variance(x.view(), center.view(), view_as(y, dims.kept),
                      degrees_of_freedom(dims.count, correction), NodeType::root);
  });
  return record<NodeType>(y, {&x}, [&](NodeType& node) {
    node.set_dims(dims);
    node.correction = correction;
    node.save(x, y);
  });
}

// ---- logsumexp ----------------------------------------------------------------------------------

struct LogSumExpNode final : ReduceNode {
  LogSumExpNode() : ReduceNode("logsumexp") {}
  static constexpr const char* reason = "dx = g * e / sum(e), e = exp(x - y)";
  Saved x{*this, "x", {0}, reason, Saved::Exact{}};
  Saved y{*this, "y", {0}, reason, Saved::Exact{}};

  Grads backward(Tensor g, const Wanted&) override {
    const Tensor offset = with_dims(y.get());
    Tensor e = exp(sub(x.get(), offset));
    const Tensor total = rounding(sum(e.detach(), dims(), true), offset.detach());
    return {mul(std::move(e), div(with_dims(g), total))};
  }

 private:
  // sum(e) is 1 but for the rounding of y, which is large where y is: no further from 1 than that
  // allows. Over nothing it is 0, and NaN where y is infinite; there e alone is right.
  static Tensor rounding(const Tensor& total, const Tensor& y) {
    const bool is_double = y.dtype() == DType::f64;
    const Tensor slack = mul(abs(y), is_double ? 0x1p-52 : 0x1p-23);
    const Tensor usable = where(gt(total, 0.0), total, 1.0);
    const Tensor above = exp(slack), below = exp(neg(slack));
    return maximum(minimum(usable, above), below);
  }
};

// ---- norm ---------------------------------------------------------------------------------------

struct NormNode final : ReduceNode {
  NormNode() : ReduceNode("norm") {}
  Saved x{*this, "x", {0}, "dx = g * x / y, 0 where y = 0"};
  Saved y{*this, "y", {0}, "dx = g * x / y, 0 where y = 0"};

  Grads backward(Tensor g, const Wanted&) override {
    const Tensor scale = quotient_or_zero(g, y.get());
    return {mul(x.get(), with_dims(scale))};
  }
};

Tensor norm2(const Tensor& x, const Dims& over, bool keepdim) {
  const ReducedDims dims("norm", x, over, keepdim);
  Tensor y = empty("norm", dims.result, x.dtype());
  launch([&] { kernels::norm2(x.view(), view_as(y, dims.kept)); });
  return record<NormNode>(y, {&x}, [&](NormNode& node) {
    node.set_dims(dims);
    node.x.save(x);
    node.y.save(y);
  });
}

// x^p for x >= 0, with slope 0 at 0: where that is infinite, the power is taken of 1 instead.
Tensor power_or_zero(Tensor x, double p) {
  const Tensor is_zero = eq(x, 0.0);
  Tensor power = pow(masked_fill(std::move(x), is_zero, 1), p);
  return masked_fill(std::move(power), is_zero, 0);
}

// For p < 2 a power of |x| has an infinite slope, of first or second order, at 0.
Tensor general_norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  const Tensor powers = p < 2 ? power_or_zero(abs(x), p) : pow(abs(x), p);
  return power_or_zero(sum(powers, dims, keepdim), 1.0 / p);
}

}  // namespace

Tensor var(const Tensor& x, const Dims& dims, double correction, bool keepdim) {
  return spread_of<VarNode>("var", x, dims, correction, keepdim);
}

Tensor std(const Tensor& x, const Dims& dims, double correction, bool keepdim) {
  return spread_of<StdNode>("std", x, dims, correction, keepdim);
}

Tensor logsumexp(const Tensor& x, const Dims& over, bool keepdim) {
  check_floating("logsumexp", "x", x);
  const ReducedDims dims("logsumexp", x, over, keepdim);
  Tensor y = empty("logsumexp", dims.result, x.dtype());
  launch([&] {
    const View result = view_as(y, dims.kept);
    kernels::amax(x.view(), result);
    kernels::logsumexp_from_max(x.view(), result);
  });
  return record<LogSumExpNode>(y, {&x}, [&](LogSumExpNode& node) {
    node.set_dims(dims);
    node.x.save(x);
    node.y.save(y);
  });
}

Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  check_floating("norm", "x", x);
  if (!(p > 0)) throw ValueError("norm", "p = " + format_number(p) + ": must be positive");
  if (p == 2) return norm2(x, dims, keepdim);
  if (p == 1) return sum(abs(x), dims, keepdim);
  if (p == std::numeric_limits<double>::infinity()) return amax(abs(x), dims, keepdim);
  return general_norm(x, p, dims, keepdim);
}

}  // namespace tapehead
