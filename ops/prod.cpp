#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/kernels/scan.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduction.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

using detail::ReducedDims;
using detail::ReduceNode;
using detail::view_as;

// For each element of x the product of the others along dim, as recorded operations: n copies of
// each line, element i replaced by 1 in copy i, and the product of each copy.
Tensor recorded_products_of_others(const Tensor& x, std::int64_t dim) {
  const std::int64_t n = x.shape()[dim];
  Shape copies_shape = x.shape(), mask_shape(x.rank() + 1, 1);
  copies_shape.insert(dim, n);
  mask_shape[dim] = mask_shape[dim + 1] = n;
  const Tensor copies = expand(unsqueeze(x, dim), copies_shape);
  const Tensor index = arange(n);
  const Tensor diagonal = eq(reshape(index, {n, 1}), reshape(index, {1, n}));
  const Tensor without_own = masked_fill(copies, reshape(diagonal, mask_shape), 1);
  return prod(without_own, dim + 1);
}

struct ProdNode final : ReduceNode {
  ProdNode() : ReduceNode("prod") {}
  Saved x{*this, "x", {0}, "dx = g * product of the others"};
  std::int64_t dim = 0;

  Grads backward(Tensor g, const Wanted&) override {
    Tensor others = products_of_others();
    return {mul(std::move(others), with_dims(g))};
  }

 private:
  Tensor products_of_others() {
    const Tensor& saved = x.get();
    if (Tape::recording() && saved.rank() > 0) return recorded_products_of_others(saved, dim);
    Tensor others = empty("prod", saved.shape(), saved.dtype());
    launch([&] { kernels::products_of_others(saved.view(), others.view(), dim); });
    return others;
  }
};

}  // namespace

Tensor prod(const Tensor& x, std::int64_t dim, bool keepdim) {
  check_floating("prod", "x", x);
  dim = normalize_dim("prod", dim, x.rank());
  const ReducedDims dims("prod", x, {dim}, keepdim);
  Tensor y = empty("prod", dims.result, x.dtype());
  launch([&] { kernels::prod(x.view(), view_as(y, dims.kept)); });
  return record<ProdNode>(std::move(y), {&x}, [&](ProdNode& node) {
    node.set_dims(dims);
    node.dim = dim;
    node.x.save(x);
  });
}

}  // namespace tapehead
