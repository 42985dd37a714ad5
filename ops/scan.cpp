#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/kernels/scan.h>
#include <tapehead/ops/scan.h>

namespace tapehead {
namespace {

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse);

struct CumsumNode final : Node {
  CumsumNode() : Node("cumsum") {}
  std::int64_t dim = 0;
  bool reverse = false;

  Grads backward(Tensor g, const Wanted&) override { return {running_sum(g, dim, !reverse)}; }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim", dim}, {"reverse", reverse}};
  }
};

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse) {
  Tensor y = empty("cumsum", x.shape(), x.dtype());
  launch([&] { kernels::cumsum(x.view(), y.view(), dim, reverse); });
  return record<CumsumNode>(std::move(y), {&x}, [&](CumsumNode& node) {
    node.dim = dim;
    node.reverse = reverse;
  });
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  check_floating("cumsum", "x", x);
  return running_sum(x, normalize_dim("cumsum", dim, x.shape()), false);
}

}  // namespace tapehead
