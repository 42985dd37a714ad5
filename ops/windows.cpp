#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <algorithm>

namespace tapehead {
namespace {

// Positions start, start + step, ... of dim, `length` of them.
struct Window {
  std::int64_t dim = 0, start = 0, length = 0, step = 1;
};

Tensor window_of(const Tensor& x, const Window& window) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t offset = x.offset() + window.start * strides[window.dim];
  shape[window.dim] = window.length;
  strides[window.dim] *= window.step;
  return alias(x, shape, strides, offset);
}

// The gradient of the tensor that the window looks at: g added to what there is of it, so that the
// parts of a split fill one buffer, or else g among zeros.
Tensor pull_window(const Node& node, const Wanted& wanted, const Tensor& g, const Window& window) {
  if (Tensor partial = wanted.take_partial(0); partial.defined()) {
    launch([&] { add_into(window_of(partial, window).any_view(), g.any_view()); });
    return partial;
  }
  return slice_backward(g, node.input_shape(0), window.dim, window.start, window.step);
}

struct NarrowNode final : Node {
  NarrowNode() : Node("narrow") {}
  bool runs_in_any_dtype() const override { return true; }
  Window window;
  Grads backward(Tensor g, const Wanted& wanted) override {
    return {pull_window(*this, wanted, g, window)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim", window.dim}, {"start", window.start}, {"length", window.length}};
  }
};

struct SliceNode final : Node {
  SliceNode() : Node("slice") {}
  bool runs_in_any_dtype() const override { return true; }
  Window window;
  Grads backward(Tensor g, const Wanted& wanted) override {
    return {pull_window(*this, wanted, g, window)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim", window.dim},
            {"start", window.start},
            {"length", window.length},
            {"step", window.step}};
  }
};

struct SelectNode final : Node {
  SelectNode() : Node("select") {}
  bool runs_in_any_dtype() const override { return true; }
  Window window;
  Grads backward(Tensor g, const Wanted& wanted) override {
    return {pull_window(*this, wanted, unsqueeze(g, window.dim), window)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim", window.dim}, {"index", window.start}};
  }
};

struct SliceBackwardNode final : Node {
  SliceBackwardNode() : Node("slice_backward") {}
  bool runs_in_any_dtype() const override { return true; }
  Window window;
  Grads backward(Tensor g, const Wanted&) override {
    const std::int64_t end = window.start + window.length * window.step;
    return {slice(g, window.dim, window.start, end, window.step)};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim", window.dim}, {"start", window.start}, {"step", window.step}};
  }
};

// A dim of a tensor that has dims at all.
std::int64_t dim_of(const char* operation, const Tensor& x, std::int64_t dim) {
  check_defined(operation, "x", x);
  if (x.rank() == 0)
    throw ShapeError(operation, "x " + describe(x) + " has no dim to take a part of");
  return normalize_dim(operation, dim, x.shape());
}

// A bound of a slice as Python reads it: negative from the end, then cut to [0, size].
std::int64_t slice_bound(std::int64_t bound, std::int64_t size) {
  return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
}

std::vector<Tensor> consecutive_parts(const char* operation, const Tensor& x, std::int64_t dim,
                                      std::int64_t part, std::int64_t count) {
  if (count > max_parts)
    throw ValueError(operation, "x " + describe(x) + " would fall into " + std::to_string(count) +
                                    " parts along dim " + std::to_string(dim) +
                                    "; one call gives at most " + std::to_string(max_parts));
  const std::int64_t size = x.shape()[dim];
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < count; ++i)
    parts.push_back(narrow(x, dim, i * part, std::min(part, size - i * part)));
  return parts;
}

}  // namespace

Tensor narrow(Tensor x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const GiveBack give_back(x);
  const std::int64_t d = dim_of("narrow", x, dim);
  const std::int64_t size = x.shape()[d];
  if (length < 0)
    throw ValueError("narrow",
                     "x " + describe(x) + ": length " + std::to_string(length) + " is negative");
  if (start < 0 || start > size || length > size - start)
    throw IndexError("narrow", "x " + describe(x) + ": " + std::to_string(length) +
                                   " positions from " + std::to_string(start) +
                                   " do not lie in dim " + std::to_string(d) + " of size " +
                                   std::to_string(size));
  const Window window{d, start, length, 1};
  return record<NarrowNode>(window_of(x, window), {&x},
                            [&](NarrowNode& node) { node.window = window; });
}

Tensor slice(Tensor x, std::int64_t dim, std::optional<std::int64_t> start,
             std::optional<std::int64_t> end, std::int64_t step) {
  const GiveBack give_back(x);
  const std::int64_t d = dim_of("slice", x, dim);
  if (step < 1)
    throw ValueError("slice",
                     "x " + describe(x) + ": step " + std::to_string(step) + " must be at least 1");
  const std::int64_t size = x.shape()[d];
  const std::int64_t first = slice_bound(start.value_or(0), size);
  const std::int64_t span =
      std::max<std::int64_t>(slice_bound(end.value_or(size), size) - first, 0);
  const std::int64_t length = span / step + (span % step != 0);
  // With one position the step says nothing, and a huge one would overflow the stride.
  const Window window{d, first, length, length > 1 ? step : 1};
  return record<SliceNode>(window_of(x, window), {&x},
                           [&](SliceNode& node) { node.window = window; });
}

Tensor select(Tensor x, std::int64_t dim, std::int64_t index) {
  const GiveBack give_back(x);
  const std::int64_t d = dim_of("select", x, dim);
  const std::int64_t size = x.shape()[d];
  if (index < -size || index >= size)
    throw IndexError("select", "x " + describe(x) + ": index " + std::to_string(index) +
                                   " is outside dim " + std::to_string(d) + " of size " +
                                   std::to_string(size));
  const Window window{d, index < 0 ? index + size : index, 1, 1};
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(d);
  strides.erase(d);
  Tensor y = alias(x, shape, strides, x.offset() + window.start * x.strides()[d]);
  return record<SelectNode>(y, {&x}, [&](SelectNode& node) { node.window = window; });
}

std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, std::int64_t dim) {
  const std::int64_t d = dim_of("split", x, dim);
  const std::int64_t size = x.shape()[d];
  if (split_size < 0 || (split_size == 0 && size > 0))
    throw ValueError("split", "x " + describe(x) + ": split_size " + std::to_string(split_size) +
                                  " must be positive");
  const std::int64_t count = size == 0 ? 1 : (size - 1) / split_size + 1;
  return consecutive_parts("split", x, d, split_size, count);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes,
                          std::int64_t dim) {
  const std::int64_t d = dim_of("split", x, dim);
  std::int64_t rest = x.shape()[d];
  bool fits = true;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      throw ValueError("split",
                       "x " + describe(x) + ": size " + std::to_string(size) + " is negative");
    fits = fits && size <= rest;
    if (fits) rest -= size;
  }
  if (!fits || rest != 0)
    throw ShapeError("split", "x " + describe(x) + ": the sizes do not add up to dim " +
                                  std::to_string(d) + " of size " + std::to_string(x.shape()[d]));
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(narrow(x, d, start, size));
    start += size;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim) {
  const std::int64_t d = dim_of("chunk", x, dim);
  if (chunks < 1)
    throw ValueError(
        "chunk", "x " + describe(x) + ": chunks " + std::to_string(chunks) + " must be at least 1");
  const std::int64_t size = x.shape()[d];
  if (size == 0) return consecutive_parts("chunk", x, d, 0, chunks);
  const std::int64_t part = (size - 1) / chunks + 1;
  return consecutive_parts("chunk", x, d, part, (size - 1) / part + 1);
}

Tensor slice_backward(const Tensor& g, const Shape& shape, std::int64_t dim, std::int64_t start,
                      std::int64_t step) {
  const std::int64_t d = dim_of("slice_backward", g, dim);
  Window window{d, start, g.shape()[d], step};
  Shape fitting = shape;
  if (shape.rank() == g.rank()) fitting[d] = window.length;
  const bool fits = fitting == g.shape() && start >= 0 && step >= 1 && start <= shape[d] &&
                    (window.length == 0 ||
                     (start < shape[d] && window.length - 1 <= (shape[d] - 1 - start) / step));
  if (!fits)
    throw ShapeError("slice_backward", "g " + describe(g) + " does not fit into " +
                                           to_string(shape) + " along dim " + std::to_string(d) +
                                           " from " + std::to_string(start) + " in steps of " +
                                           std::to_string(step));
  if (window.length <= 1) window.step = 1;  // of no effect, and one that is not might overflow
  Tensor y = filled("slice_backward", shape, g.dtype(), 0.0);
  launch([&] { copy_values(window_of(y, window).any_view(), g.any_view()); });
  return record<SliceBackwardNode>(y, {&g}, [&](SliceBackwardNode& node) { node.window = window; });
}

}  // namespace tapehead
