#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/create.h>

#include <cmath>
#include <limits>

namespace tapehead {
namespace {

// A row-major 1-D tensor whose element i is value(i), as a value of the dtype's own type.
template <class F>
Tensor counted(std::int64_t count, DType dtype, F value) {
  if (dtype == DType::boolean)
    throw DTypeError("arange", "a bool tensor cannot count; use f32, f64 or i64");
  Tensor y = empty("arange", {count}, dtype);
  launch([&] {
    visit_any(dtype, [&](auto zero) {
      using T = decltype(zero);
      T* data = y.any_view().as<T>();
      for (std::int64_t i = 0; i < count; ++i) data[i] = convert<T>(value(i));
    });
  });
  return y;
}

struct ToNode final : Node {
  ToNode() : Node("to") {}
  bool runs_in_any_dtype() const override { return true; }
  DType dtype = DType::f32;
  Grads backward(Tensor g, const Wanted&) override { return {to(g, input_dtype(0))}; }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dtype", std::string(to_string(dtype))}};
  }
};

}  // namespace

Tensor zeros(const Shape& shape, DType dtype) { return filled("zeros", shape, dtype, 0); }
Tensor ones(const Shape& shape, DType dtype) { return filled("ones", shape, dtype, 1); }
Tensor full(const Shape& shape, double value, DType dtype) {
  return filled("full", shape, dtype, value);
}

Tensor zeros_like(const Tensor& x) {
  check_defined("zeros_like", "x", x);
  return zeros(x.shape(), x.dtype());
}
Tensor ones_like(const Tensor& x) {
  check_defined("ones_like", "x", x);
  return ones(x.shape(), x.dtype());
}
Tensor full_like(const Tensor& x, double value) {
  check_defined("full_like", "x", x);
  return full(x.shape(), value, x.dtype());
}

Tensor arange(double start, double end, double step, DType dtype) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step))
    throw ValueError("arange", "from " + format_number(start) + " to " + format_number(end) +
                                   " in steps of " + format_number(step) +
                                   ": all must be finite, and the step not 0");
  const double count = std::max(std::ceil((end - start) / step), 0.0);
  if (count >= static_cast<double>(std::numeric_limits<std::int64_t>::max()))
    throw ValueError("arange", format_number(count) + " elements are too many");
  return counted(static_cast<std::int64_t>(count), dtype,
                 [&](std::int64_t i) { return start + static_cast<double>(i) * step; });
}

Tensor arange(std::int64_t end, DType dtype) {
  return counted(std::max<std::int64_t>(end, 0), dtype, [](std::int64_t i) { return i; });
}

NestedList::NestedList(std::initializer_list<NestedList> lists) {
  shape_.push_back(static_cast<std::int64_t>(lists.size()));
  if (lists.size() == 0) return;
  const Shape& inner = lists.begin()->shape_;
  for (const std::int64_t size : inner) shape_.push_back(size);
  for (const NestedList& list : lists) {
    if (list.shape_ != inner)
      throw ShapeError("tensor", "the lists are ragged: one has shape " + to_string(inner) +
                                     ", another " + to_string(list.shape_));
    values_.insert(values_.end(), list.values_.begin(), list.values_.end());
  }
}

Tensor tensor(const NestedList& values, DType dtype) {
  return from_vector(values.values(), values.shape(), dtype);
}

Tensor to(Tensor x, DType dtype) {
  check_defined("to", "x", x);
  if (x.dtype() == dtype) return x;
  Tensor y = empty("to", x.shape(), dtype);
  launch([&] { copy_values(y.any_view(), x.any_view()); });
  return record<ToNode>(y, {&x}, [&](ToNode& node) { node.dtype = dtype; });
}

}  // namespace tapehead
