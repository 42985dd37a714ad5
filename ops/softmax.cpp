#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/kernels/softmax.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>

namespace tapehead {
namespace {

// x for a kernel that wants it row-major and may run in place: x itself, or its copy in `result`.
View row_major(const Tensor& x, const Tensor& result) {
  if (x.is_contiguous()) return x.view();
  copy_values(result.view(), x.view());
  return result.view();
}

class AlongDimNode : public Node {
 public:
  using Node::Node;
  std::int64_t dim = 0;
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

struct SoftmaxNode final : AlongDimNode {
  SoftmaxNode() : AlongDimNode("softmax") {}
  Saved y{*this, "y", {0}, "dx = y * (g - sum(g * y))"};
  EmptyRow empty_row = EmptyRow::nan;

  std::vector<Graph::Attribute> attributes() const override {
    auto list = AlongDimNode::attributes();
    if (empty_row == EmptyRow::zero) list.push_back({"empty_row", std::string("zero")});
    return list;
  }
  Grads backward(Tensor g, const Wanted&) override {
    return {softmax_backward(std::move(g), y.get(), dim)};
  }
};

struct SoftmaxBackwardNode final : AlongDimNode {
  SoftmaxBackwardNode() : AlongDimNode("softmax_backward") {}
  Saved g{*this, "g", {1}, "dy = h * (g - sum(g * y)) - g * sum(h * y)"};
  Saved y{*this, "y", {0, 1}, "dg = y * (h - sum(h * y))"};

  Grads backward(Tensor h, const Wanted& wanted) override {
    Tensor dg, dy;
    if (wanted[1]) dy = y_gradient(h);
    if (wanted[0]) dg = softmax_backward(std::move(h), y.get(), dim);
    return {dg, dy};
  }

 private:
  Tensor y_gradient(const Tensor& h) {
    const Tensor g_dot_y = sum(mul(g.get(), y.get()), {dim}, true);
    const Tensor h_dot_y = sum(mul(h, y.get()), {dim}, true);
    Tensor direct = mul(h, sub(g.get(), g_dot_y));
    Tensor through_sum = mul(g.get(), h_dot_y);
    return sub(std::move(direct), std::move(through_sum));
  }
};

struct LogSoftmaxNode final : AlongDimNode {
  LogSoftmaxNode() : AlongDimNode("log_softmax") {}
  Saved y{*this, "y", {0}, "dx = g - exp(y) * sum(g)"};

  Grads backward(Tensor g, const Wanted&) override {
    if (Tape::recording()) return {composed(g)};
    Tensor dx = donate_or_empty("log_softmax", g, g.shape(), g.dtype());
    const Tensor& result = y.get();
    launch([&] {
      const View from = row_major(g, dx);
      kernels::log_softmax_backward(from, result.view(), dx.view(), dim);
    });
    return {dx};
  }

 private:
  Tensor composed(const Tensor& g) {
    const Tensor total = sum(g, {dim}, true);
    Tensor softmax = exp(y.get());
    return sub(g, mul(std::move(softmax), total));
  }
};

}  // namespace

Tensor softmax(Tensor x, std::int64_t dim, SoftmaxOptions options) {
  const GiveBack give_back(x);
  check_floating("softmax", "x", x);
  dim = normalize_dim("softmax", dim, x.shape());
  Tensor y = donate_or_empty("softmax", x, x.shape(), x.dtype());
  launch([&] {
    const View from = row_major(x, y);
    kernels::softmax(from, y.view(), dim, options.empty_row == EmptyRow::zero);
  });
  return record<SoftmaxNode>(y, {&x}, [&](SoftmaxNode& node) {
    node.dim = dim;
    node.empty_row = options.empty_row;
    node.y.save(y);
  });
}

Tensor softmax_backward(Tensor g, const Tensor& y, std::int64_t dim) {
  const GiveBack give_back(g);
  check_floating("softmax_backward", "g", g);
  check_same_dtype("softmax_backward", g, y, "g", "y");
  if (g.shape() != y.shape())
    throw ShapeError("softmax_backward",
                     "g " + describe(g) + " and y " + describe(y) + " must have one shape");
  dim = normalize_dim("softmax_backward", dim, y.shape(), "y");
  const bool reads_g_later = will_record(y);
  Tensor dx = reads_g_later ? empty("softmax_backward", g.shape(), g.dtype())
                            : donate_or_empty("softmax_backward", g, g.shape(), g.dtype());
  const Tensor y_rows = y.is_contiguous() ? y : copied("softmax_backward", y);
  launch([&] {
    const View from = row_major(g, dx);
    kernels::softmax_backward(from, y_rows.view(), dx.view(), dim);
  });
  return record<SoftmaxBackwardNode>(std::move(dx), {&g, &y}, [&](SoftmaxBackwardNode& node) {
    node.dim = dim;
    node.g.save(g);
    node.y.save(y);
  });
}

Tensor log_softmax(Tensor x, std::int64_t dim) {
  const GiveBack give_back(x);
  check_floating("log_softmax", "x", x);
  dim = normalize_dim("log_softmax", dim, x.shape());
  Tensor y = donate_or_empty("log_softmax", x, x.shape(), x.dtype());
  launch([&] {
    const View from = row_major(x, y);
    kernels::log_softmax(from, y.view(), dim);
  });
  return record<LogSoftmaxNode>(y, {&x}, [&](LogSoftmaxNode& node) {
    node.dim = dim;
    node.y.save(y);
  });
}

}  // namespace tapehead
