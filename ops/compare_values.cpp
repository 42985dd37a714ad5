#include <tapehead/ops/compare_values.h>

#include <cmath>

namespace tapehead {
namespace {

// Whether same(a_i, b_i) holds for all elements, read as A and B. One shape.
template <class A, class B, class F>
bool all_of_pairs(const View& a, const View& b, F same) {
  const auto loop = merge_dims<2>(a.shape, {&a.strides, &b.strides});
  bool all = true;
  for_each_run(loop, 0, numel(a.shape), [&](const auto& offsets, std::int64_t count) {
    const A* pa = a.as<const A>() + offsets[0];
    const B* pb = b.as<const B>() + offsets[1];
    for (std::int64_t i = 0; i < count && all; ++i)
      all = same(pa[i * loop.inner_stride(0)], pb[i * loop.inner_stride(1)]);
  });
  return all;
}

}  // namespace

bool equal(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return all_of_pairs<T, T>(a.any_view(), b.any_view(), [](T x, T y) { return x == y; });
  });
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  if (a.shape() != b.shape())
    throw ShapeError("allclose",
                     "a " + describe(a) + " and b " + describe(b) + " must have one shape");
  const auto close = [=](double x, double y) {
    if (x == y || (equal_nan && std::isnan(x) && std::isnan(y))) return true;
    return std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y);
  };
  return visit_any(a.dtype(), [&](auto a_zero) {
    return visit_any(b.dtype(), [&](auto b_zero) {
      using A = decltype(a_zero);
      using B = decltype(b_zero);
      return all_of_pairs<A, B>(a.any_view(), b.any_view(), [&](A x, B y) {
        return close(static_cast<double>(x), static_cast<double>(y));
      });
    });
  });
}

}  // namespace tapehead
