#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/tape.h>
#include <tapehead/ops/derivatives.h>

namespace tapehead {
namespace {

// A leaf with the values of x to call f with, so that the caller's tensor is left alone.
Tensor leaf_of(const char* operation, const TensorFunction& f, const Tensor& x) {
  if (!f) throw ValueError(operation, "f holds no function");
  check_floating(operation, "x", x);
  return parameter(copied(operation, x));
}

void check_direction(const char* operation, const char* name, const Tensor& direction,
                     const Tensor& of) {
  check_same_dtype(operation, direction, of, name, "its space");
  if (direction.shape() != of.shape())
    throw ShapeError(operation, std::string(name) + " " + describe(direction) +
                                    " must have the shape of its space " + to_string(of.shape()));
}

bool depends_on_leaf(const Tensor& y) { return y.requires_grad(); }

Tensor zeros_of(const char* operation, const Tensor& like) {
  return filled(operation, like.shape(), like.dtype(), 0.0);
}

// A tensor of zeros with a one at a flat position.
Tensor one_hot(const Tensor& like, std::int64_t position) {
  Tensor seed = zeros_of("jacobian", like);
  launch([&] {
    visit_floating(seed.dtype(),
                   [&](auto zero) { seed.view().as<decltype(zero)>()[position] = 1; });
  });
  return seed;
}

}  // namespace

Tensor jacobian(const TensorFunction& f, const Tensor& x) {
  const Tensor leaf = leaf_of("jacobian", f, x);
  Tape tape;
  const Tensor y = f(leaf);
  check_rank("jacobian", y.rank() + x.rank(), x.shape());
  Shape shape = y.shape();
  for (const std::int64_t size : x.shape()) shape.push_back(size);
  Tensor result = filled("jacobian", shape, x.dtype(), 0.0);
  if (!depends_on_leaf(y)) return result;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const Gradients g = tape.gradient(y, {leaf}, one_hot(y, i), {.keep = true});
    const Tensor row = alias(result, x.shape(), contiguous_strides(x.shape()), i * x.numel());
    launch([&] { copy_values(row.view(), g[leaf].view()); });
  }
  return result;
}

Tensor jvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  check_direction("jvp", "v", v, x);
  const Tensor leaf = leaf_of("jvp", f, x);
  Tape tape;
  const Tensor y = f(leaf);
  if (!depends_on_leaf(y)) return zeros_of("jvp", y);
  const Tensor u = parameter(zeros_of("jvp", y));
  const Tensor pulled = tape.gradient(y, {leaf}, u, {.create_graph = true})[leaf];
  if (!depends_on_leaf(pulled)) return zeros_of("jvp", y);
  return tape.gradient(pulled, {u}, v)[u];
}

Tensor vjp(const TensorFunction& f, const Tensor& x, const Tensor& u) {
  const Tensor leaf = leaf_of("vjp", f, x);
  Tape tape;
  const Tensor y = f(leaf);
  check_direction("vjp", "u", u, y);
  if (!depends_on_leaf(y)) return zeros_of("vjp", x);
  return tape.gradient(y, {leaf}, u)[leaf];
}

Tensor hvp(const TensorFunction& f, const Tensor& x, const Tensor& v) {
  check_direction("hvp", "v", v, x);
  const Tensor leaf = leaf_of("hvp", f, x);
  Tape tape;
  const Tensor y = f(leaf);
  if (!depends_on_leaf(y)) return zeros_of("hvp", x);
  const Tensor g = tape.gradient(y, {leaf}, {}, {.create_graph = true})[leaf];
  if (!depends_on_leaf(g)) return zeros_of("hvp", x);
  return tape.gradient(g, {leaf}, v)[leaf];
}

}  // namespace tapehead
