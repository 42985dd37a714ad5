#include <tapehead/ops/binary.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/views.h>

namespace tapehead::detail {

ReducedDims::ReducedDims(const char* operation, const Tensor& x, const Dims& dims, bool keep)
    : kept(x.shape()), keepdim(keep) {
  for (const std::int64_t dim : normalize_dims(operation, dims, x.shape())) {
    if (x.rank() == 0) continue;  // dim 0 of a 0-d tensor: its one element
    mask |= 1u << static_cast<unsigned>(dim);
    count *= kept[dim];
    kept[dim] = 1;
  }
  for (int i = 0; i < kept.rank(); ++i)
    if (keep || !(mask >> i & 1u)) result.push_back(kept[i]);
}

void ReducedDims::check_not_empty(const char* operation, const Tensor& x) const {
  if (count == 0)
    throw ShapeError(operation, "x " + describe(x) +
                                    ": a reduced dim has size 0, and there is no "
                                    "extreme value of nothing");
}

View view_as(const Tensor& row_major, const Shape& shape) {
  View view = row_major.view();
  view.shape = shape;
  view.strides = contiguous_strides(shape);
  return view;
}

Dims ReduceNode::dims() const {
  Dims result;
  for (int i = 0; i < Dims::max_rank; ++i)
    if (mask_ >> i & 1u) result.push_back(i);
  return result;
}

Shape ReduceNode::kept_shape() const {
  Shape kept = input_shape(0);
  for (const std::int64_t dim : dims()) kept[dim] = 1;
  return kept;
}

std::int64_t ReduceNode::count() const {
  const Shape shape = input_shape(0);
  std::int64_t count = 1;
  for (const std::int64_t dim : dims()) count *= shape[dim];
  return count;
}

Tensor ReduceNode::with_dims(const Tensor& result) const { return reshape(result, kept_shape()); }

Tensor ReduceNode::spread(const Tensor& result) const {
  return expand(with_dims(result), input_shape(0));
}

std::vector<Graph::Attribute> ReduceNode::attributes() const {
  return {{"dims", to_string(dims())}, {"keepdim", keepdim_}};
}

Tensor deviation(const Tensor& x, const Dims& dims) {
  const Tensor center = mean(x, dims, true);
  Tensor d = sub(x, center);
  const Tensor rest = mean(d, dims, true);
  return sub(std::move(d), rest);
}

}  // namespace tapehead::detail
