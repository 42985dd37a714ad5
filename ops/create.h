// Making tensors, and changing their dtype. What is made is row-major and a constant: parameter()
// makes a leaf of it. Impossible shapes are a ValueError or ShapeError. Values are converted to the
// dtype: to the nearest floating number (ties to even, beyond the largest an infinity), towards
// zero for i64 (beyond its range to the nearest end, NaN to 0); non-zero is true for bool.
#pragma once

#include <tapehead/core/tensor.h>

#include <concepts>
#include <initializer_list>
#include <vector>

namespace tapehead {

/// All elements 0.
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
/// All elements 1.
Tensor ones(const Shape& shape, DType dtype = DType::f32);
/// All elements `value`.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
/// @{
/// The same with the shape and dtype of x.
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
/// @}

/// start, start + step, ... below end (above it for a negative step); element i is start + i * step
/// in double. ValueError: step is 0, or one of the three is not finite.
Tensor arange(double start, double end, double step = 1, DType dtype = DType::f32);
/// 0, 1, ... below end: exactly as far as the dtype holds every integer (2^24 in f32).
Tensor arange(std::int64_t end, DType dtype = DType::i64);

/// Numbers in nested braces, for tensor(): 5, or {1, 2}, or {{1, 2}, {3, 4}}, and so on.
/// ShapeError when the lists are ragged.
class NestedList {
 public:
  /// @{
  /// A number, or a list of lists. Implicit by design: written as plain numbers in braces.
  NestedList(std::integral auto value) : values_{static_cast<double>(value)} {}        // NOLINT
  NestedList(std::floating_point auto value) : values_{static_cast<double>(value)} {}  // NOLINT
  NestedList(std::initializer_list<NestedList> lists);                                 // NOLINT
  /// @}

  /// How deep the braces are, and how long.
  const Shape& shape() const { return shape_; }
  /// In row-major order.
  const std::vector<double>& values() const { return values_; }

 private:
  Shape shape_;
  std::vector<double> values_;  // in row-major order
};

/// A tensor of the numbers written: tensor({{1, 2}, {3, 4}}); tensor(5) is 0-d. They pass through
/// double, which rounds integers beyond 2^53: from_vector takes those as they are.
Tensor tensor(const NestedList& values, DType dtype = DType::f32);

/// The values in another dtype; x itself when it has that dtype already. Between floating types
/// dx = g in x's dtype; else there is no gradient. saves nothing
Tensor to(Tensor x, DType dtype);

}  // namespace tapehead
