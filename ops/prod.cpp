#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/kernels/scan.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/prod.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

using detail::ReducedDims;
using detail::ReduceNode;
using detail::view_as;

// Own rule: with i the element left out of y_i, dx_j gets g_i times the product of those that are
// neither i nor j. So n copies of each line, element i replaced by 1 in copy i, and of each copy
// the products of the others.
struct ProductsOfOthersNode final : Node {
  ProductsOfOthersNode() : Node("products_of_others") {}
  Saved x{*this, "x", {0}, "dx_j = sum over i != j of g_i * product of those but i and j"};
  std::int64_t dim = 0;

  Grads backward(Tensor g, const Wanted&) override {
    const Tensor& saved = x.get();
    if (saved.rank() == 0) return {zeros_like(saved)};
    Shape copies_shape = saved.shape();
    copies_shape.insert(dim, saved.shape()[dim]);
    const Tensor own = is_own();
    const Tensor copies = masked_fill(expand(unsqueeze(saved, dim), copies_shape), own, 1);
    const Tensor others = products_of_others(copies, dim + 1);
    return {sum(masked_fill(mul(others, unsqueeze(g, dim + 1)), own, 0), {dim})};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }

 private:
  // Of the copies: whether the element is the one of that number.
  Tensor is_own() const {
    const Shape shape = input_shape(0);
    const std::int64_t n = shape[dim];
    Shape mask_shape(shape.rank() + 1, 1);
    mask_shape[dim] = mask_shape[dim + 1] = n;
    const Tensor index = arange(n);
    const Tensor down = reshape(index, {n, 1}), across = reshape(index, {1, n});
    return reshape(eq(down, across), mask_shape);
  }
};

struct ProdNode final : ReduceNode {
  ProdNode() : ReduceNode("prod") {}
  Saved x{*this, "x", {0}, "dx = g * product of the others"};
  std::int64_t dim = 0;

  Grads backward(Tensor g, const Wanted&) override {
    Tensor others = products_of_others(x.get(), dim);
    return {mul(std::move(others), with_dims(g))};
  }
};

}  // namespace

Tensor prod(const Tensor& x, std::int64_t dim, bool keepdim) {
  check_floating("prod", "x", x);
  dim = normalize_dim("prod", dim, x.shape());
  const ReducedDims dims("prod", x, {dim}, keepdim);
  Tensor y = empty("prod", dims.result, x.dtype());
  launch([&] { kernels::prod(x.view(), view_as(y, dims.kept)); });
  return record<ProdNode>(std::move(y), {&x}, [&](ProdNode& node) {
    node.set_dims(dims);
    node.dim = dim;
    node.x.save(x);
  });
}

Tensor products_of_others(const Tensor& x, std::int64_t dim) {
  check_floating("products_of_others", "x", x);
  dim = normalize_dim("products_of_others", dim, x.shape());
  Tensor y = empty("products_of_others", x.shape(), x.dtype());
  launch([&] { kernels::products_of_others(x.view(), y.view(), dim); });
  return record<ProductsOfOthersNode>(std::move(y), {&x}, [&](ProductsOfOthersNode& node) {
    node.dim = dim;
    node.x.save(x);
  });
}

}  // namespace tapehead
