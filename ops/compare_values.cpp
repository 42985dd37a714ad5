#include <tapehead/ops/compare_values.h>

#include <cmath>

namespace tapehead {
namespace {

// Whether same(i, j) holds for the offsets i and j of all pairs of elements. One shape.
template <class F>
bool all_of_pairs(const View& a, const View& b, F same) {
  const auto loop = merge_dims<2>(a.shape, {&a.strides, &b.strides});
  bool all = true;
  for_each_run(loop, 0, numel(a.shape), [&](const auto& offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count && all; ++i)
      all = same(offsets[0] + i * loop.inner_stride(0), offsets[1] + i * loop.inner_stride(1));
  });
  return all;
}

// An element as a double: no pair of dtypes needs a loop of its own.
using Element = double (*)(const void* data, std::int64_t offset);
Element element_of(DType dtype) {
  return visit_any(dtype, [](auto zero) -> Element {
    return [](const void* data, std::int64_t offset) {
      return static_cast<double>(static_cast<const decltype(zero)*>(data)[offset]);
    };
  });
}

void check_both_defined(const char* operation, const Tensor& a, const Tensor& b) {
  check_defined(operation, "a", a);
  check_defined(operation, "b", b);
}

}  // namespace

bool equal(const Tensor& a, const Tensor& b) {
  check_both_defined("equal", a, b);
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  return visit_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const View va = a.any_view(), vb = b.any_view();
    return all_of_pairs(va, vb, [&](std::int64_t i, std::int64_t j) {
      return va.as<const T>()[i] == vb.as<const T>()[j];
    });
  });
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan) {
  check_both_defined("allclose", a, b);
  if (a.shape() != b.shape())
    throw ShapeError("allclose",
                     "a " + describe(a) + " and b " + describe(b) + " must have one shape");
  const auto close = [=](double x, double y) {
    if (x == y || (equal_nan && std::isnan(x) && std::isnan(y))) return true;
    return std::isfinite(y) && std::abs(x - y) <= atol + rtol * std::abs(y);
  };
  const View va = a.any_view(), vb = b.any_view();
  const Element x = element_of(a.dtype()), y = element_of(b.dtype());
  return all_of_pairs(
      va, vb, [&](std::int64_t i, std::int64_t j) { return close(x(va.data, i), y(vb.data, j)); });
}

}  // namespace tapehead
