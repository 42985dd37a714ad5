// What operations share that take dims away: reductions, class losses, search. Internal to their
// sources.
#pragma once

#include <tapehead/core/node.h>
#include <tapehead/core/tensor.h>

namespace tapehead::detail {

/// Which dims a reduction takes away, and the shapes that follow from it.
struct ReducedDims {
  /// Checks the dims: IndexError, ValueError. An empty list means all.
  ReducedDims(const char* operation, const Tensor& x, const Dims& dims, bool keepdim);

  std::uint32_t mask = 0;  ///< bit i: dim i is reduced
  Shape kept;              ///< x's shape with size 1 in the reduced dims
  Shape result;            ///< kept, or without the reduced dims
  std::int64_t count = 1;  ///< elements of one result
  bool keepdim = false;

  /// ShapeError when a result would be taken over no elements.
  void check_not_empty(const char* operation, const Tensor& x) const;
};

/// A row-major tensor seen by a kernel under another shape with as many elements.
View view_as(const Tensor& row_major, const Shape& shape);

/// A node that remembers its dims as a bit mask: nodes stay light, and the shape is on the tape.
class ReduceNode : public Node {
 public:
  using Node::Node;
  void set_dims(const ReducedDims& dims) {
    mask_ = dims.mask;
    keepdim_ = dims.keepdim;
  }
  std::vector<Graph::Attribute> attributes() const override;

 protected:
  /// The reduced dims.
  Dims dims() const;
  /// The input's shape with size 1 in the reduced dims.
  Shape kept_shape() const;
  /// The number of elements of one result.
  std::int64_t count() const;
  /// A tensor of the result's shape, such as g, with the reduced dims back as size 1.
  Tensor with_dims(const Tensor& result) const;
  /// The same, expanded to the input's shape.
  Tensor spread(const Tensor& result) const;

 private:
  std::uint32_t mask_ = 0;
  bool keepdim_ = false;
};

/// x - mean over dims (keepdim). The mean of what is left takes back the rounding of the first,
/// which matters when the mean is large beside the deviation.
Tensor deviation(const Tensor& x, const Dims& dims);

}  // namespace tapehead::detail
