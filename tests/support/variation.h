// A row of the table made concrete: shapes, memory layouts and dtype of its inputs.
#pragma once

#include "operation_case.h"

#include <string>
#include <vector>

namespace tapehead::tests {

/// How a tensor lies in memory. All layouts of one input hold the same values, but for expanded.
enum class Layout {
  contiguous,
  transposed,  ///< the last two dims exchanged in memory; a 1-D tensor takes every other place
  expanded,    ///< the first dim that can is repeated with stride 0
  sliced,      ///< an offset, and gaps at the end of each row; what lies outside is NaN
};

struct Variation {
  std::vector<Shape> shapes;
  std::vector<Layout> layouts;
  DType dtype = DType::f64;

  bool is_contiguous() const;
  /// Elements that were far apart may be equal.
  bool has_ties(const OperationCase& row) const;
};

/// "softmax (0, 3) expanded f32", for INFO.
std::string describe(const OperationCase& row, const Variation& variation);

/// The shapes of the row and, where the call takes it, its own with all sizes equal; every input
/// contiguous, f64.
std::vector<Variation> shape_variations(const OperationCase& row);

/// Every shape with every layout: the same one for all inputs, then mixed.
std::vector<Variation> layout_variations(const OperationCase& row);

/// `v` with the inputs laid out one differently from the other.
Variation with_mixed_layouts(Variation v);

/// The values of one input in row-major order; `position` makes inputs differ.
std::vector<double> values_of(const Input& input, const Shape& shape, std::size_t position);

/// A constant with these values and layout that owns its storage alone.
Tensor lay_out(const std::vector<double>& values, const Shape& shape, DType dtype, Layout layout);

/// The row's inputs as constants, or with the differentiable ones as leaves.
std::vector<Tensor> make_inputs(const OperationCase& row, const Variation& variation);
std::vector<Tensor> make_leaves(const OperationCase& row, const Variation& variation);

/// Random upstream gradients for the results; undefined for those that are not floating.
std::vector<Tensor> make_upstream(const std::vector<Tensor>& results, Layout layout);

/// Those of `inputs` that are differentiable in the row.
std::vector<Tensor> differentiable(const OperationCase& row, const std::vector<Tensor>& inputs);

}  // namespace tapehead::tests
