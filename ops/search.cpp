#include <tapehead/core/dry_run.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/kernels/search.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

using detail::ReducedDims;
using detail::view_as;

Tensor positions_along(const char* operation, const Tensor& x, std::int64_t dim, bool keepdim,
                       bool largest) {
  check_floating(operation, "x", x);
  dim = normalize_dim(operation, dim, x.shape());
  const ReducedDims dims(operation, x, {dim}, keepdim);
  dims.check_not_empty(operation, x);
  Tensor index = empty(operation, dims.result, DType::i64);
  launch([&] { kernels::argmax(x.view(), view_as(index, dims.kept), dim, largest); });
  return index;
}

Tensor position(const char* operation, const Tensor& x, std::optional<std::int64_t> dim,
                bool keepdim, bool largest) {
  check_defined(operation, "x", x);
  if (dim) return positions_along(operation, x, *dim, keepdim, largest);
  const Tensor line = reshape(contiguous(x.detach()), {x.numel()});
  const Tensor index = positions_along(operation, line, 0, false, largest);
  return keepdim ? reshape(index, Shape(x.rank(), 1)) : index;
}

ValuesAndIndices chosen(const Tensor& x, std::int64_t dim, bool keepdim, const Tensor& index) {
  if (x.rank() == 0) return {reshape(x, {}), index};
  const Tensor values = gather(x, dim, index);
  if (keepdim) return {values, index};
  return {squeeze(values, dim), squeeze(index, dim)};
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return position("argmax", x, dim, keepdim, true);
}

Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return position("argmin", x, dim, keepdim, false);
}

ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return chosen(x, dim, keepdim, positions_along("max", x, dim, true, true));
}

ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return chosen(x, dim, keepdim, positions_along("min", x, dim, true, false));
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  check_floating("topk", "x", x);
  dim = normalize_dim("topk", dim, x.shape());
  const std::int64_t length = x.rank() == 0 ? 1 : x.shape()[dim];
  if (k < 0 || k > length)
    throw ValueError("topk", "k = " + std::to_string(k) + " of " + describe(x) +
                                 ": must be in [0, " + std::to_string(length) +
                                 "], the size of dim " + std::to_string(dim));
  if (x.rank() == 0) {
    const ValuesAndIndices one = topk(reshape(x, {1}), k, 0, largest);
    if (k == 0) return one;
    return {reshape(one.values, {}), reshape(one.indices, {})};
  }
  Shape shape = x.shape();
  shape.erase(dim);
  shape.push_back(k);
  const Tensor lines = empty("topk", shape, DType::i64);
  Dims order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i < dim ? i : i == dim ? x.rank() - 1 : i - 1);
  const Tensor index = permute(lines, order);
  launch([&] { kernels::topk(x.view(), index.view(), dim, largest); });
  return {gather(x, dim, index), index};
}

}  // namespace tapehead
