#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>

namespace tapehead {
Tensor filled(const char* operation, const Shape& shape, DType dtype, double value,
              Category category) {
  Tensor result = empty(operation, shape, dtype, category);
  launch([&] { fill_values(result.any_view(), value); });
  return result;
}

Tensor copied(const char* operation, const Tensor& x) {
  Tensor result = empty(operation, x.shape(), x.dtype());
  launch([&] { copy_values(result.any_view(), x.any_view()); });
  return result;
}

namespace {

// f with the element type and the type to compute in: gradients in bf16 and f16 are summed and
// scaled in float, and rounded once.
template <class F>
void visit_gradient(DType dtype, F&& f) {
  if (dtype == DType::bf16) return f(BFloat16{}, float{});
  if (dtype == DType::f16) return f(Float16{}, float{});
  visit_floating(dtype, [&](auto zero) { f(zero, zero); });
}

}  // namespace

void add_into(const View& to, const View& from) {
  const auto loop = merge_dims<2>(to.shape, {&to.strides, &from.strides});
  visit_gradient(to.dtype, [&](auto zero, auto wide_zero) {
    using T = decltype(zero);
    using Wide = decltype(wide_zero);
    const auto sum = [](T a, T b) {
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    };
    const std::int64_t to_step = loop.inner_stride(0), from_step = loop.inner_stride(1);
    parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
      T* t = to.as<T>() + offsets[0];
      const T* f = from.as<const T>() + offsets[1];
      if (to_step == 1 && from_step == 1) {
        for (std::int64_t i = 0; i < count; ++i) t[i] = sum(t[i], f[i]);
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          t[i * to_step] = sum(t[i * to_step], f[i * from_step]);
      }
    });
  });
}

void scale_in_place(const View& x, double factor) {
  const auto loop = merge_dims<1>(x.shape, {&x.strides});
  visit_gradient(x.dtype, [&](auto zero, auto wide_zero) {
    using T = decltype(zero);
    using Wide = decltype(wide_zero);
    const std::int64_t step = loop.inner_stride(0);
    parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
      T* data = x.as<T>() + offsets[0];
      for (std::int64_t i = 0; i < count; ++i)
        data[i * step] =
            static_cast<T>(static_cast<Wide>(data[i * step]) * static_cast<Wide>(factor));
    });
  });
}

bool is_expanded(const Tensor& x) { return is_expanded(x.shape(), x.strides()); }

bool is_exclusive(const Tensor& x) {
  return x.impl()->use_count() == 1 && x.storage()->use_count() == 1 && !x.is_leaf() &&
         !is_expanded(x);
}

namespace {

struct AccumulateNode final : Node {
  AccumulateNode() : Node("accumulate") {}
  bool runs_in_any_dtype() const override { return true; }
  Grads backward(Tensor g, const Wanted&) override { return {g, g}; }
};

}  // namespace

Tensor accumulate(const Tensor& a, const Tensor& b) {
  Tensor y = copied("accumulate", a);
  launch([&] { add_into(y.any_view(), b.any_view()); });
  return record<AccumulateNode>(y, {&a, &b}, [](AccumulateNode&) {});
}

}  // namespace tapehead
