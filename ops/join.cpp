#include <tapehead/core/copy.h>
#include <tapehead/core/count.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <algorithm>

namespace tapehead {
namespace {

// ---- copies -------------------------------------------------------------------------------------

struct CloneNode final : Node {
  CloneNode() : Node("clone") {}
  bool runs_in_any_dtype() const override { return true; }
  Grads backward(Tensor g, const Wanted&) override { return {std::move(g)}; }
};

struct ContiguousNode final : Node {
  ContiguousNode() : Node("contiguous") {}
  bool runs_in_any_dtype() const override { return true; }
  Grads backward(Tensor g, const Wanted&) override { return {std::move(g)}; }
};

template <class NodeType>
Tensor row_major_copy(const char* operation, const Tensor& x) {
  check_defined(operation, "x", x);
  Tensor y = empty(operation, x.shape(), x.dtype());
  launch([&] { copy_values(y.any_view(), x.any_view()); });
  return record<NodeType>(y, {&x}, [](NodeType&) {});
}

// ---- joining ------------------------------------------------------------------------------------

struct CatNode final : Node {
  CatNode() : Node("cat") {}
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    std::vector<Tensor> parts(inputs().size());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t size = input_shape(i)[dim];
      if (wanted[i]) parts[i] = narrow(g, dim, start, size);
      start += size;
    }
    return Grads(std::move(parts));
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

struct StackNode final : Node {
  StackNode() : Node("stack") {}
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    std::vector<Tensor> parts(inputs().size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (wanted[i]) parts[i] = select(g, dim, static_cast<std::int64_t>(i));
    return Grads(std::move(parts));
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

std::string operand_name(std::size_t i) { return "tensors[" + std::to_string(i) + "]"; }

// One dtype, and one shape but for the size of dim `except` (-1: no exception).
void check_joinable(const char* operation, const std::vector<Tensor>& tensors,
                    std::int64_t except) {
  const Tensor& first = tensors.front();
  check_computes(operation, operand_name(0), first);
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    check_same_dtype(operation, first, tensors[i], operand_name(0), operand_name(i));
    Shape shape = tensors[i].shape();
    if (except >= 0 && shape.rank() == first.rank()) shape[except] = first.shape()[except];
    if (shape != first.shape())
      throw ShapeError(operation, operand_name(0) + " " + describe(first) + " and " +
                                      operand_name(i) + " " + describe(tensors[i]) +
                                      " must have one shape" +
                                      (except < 0 ? "" : " but for dim " + std::to_string(except)));
  }
}

void check_all_defined(const char* operation, const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ValueError(operation, "the list of tensors is empty");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    check_defined(operation, operand_name(i), tensors[i]);
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> result;
  for (const Tensor& x : tensors) result.push_back(&x);
  return result;
}

// ---- tiling -------------------------------------------------------------------------------------

// How repeat pairs the dims of x with the number of tiles: a dim of size n that is repeated r times
// is read as (1, n) and written as (r, n).
struct Tiling {
  Shape source;   // x's sizes, a 1 before each dim that is repeated
  Shape tiles;    // the same dims, the number of tiles instead of that 1
  Dims repeated;  // which dims of `tiles` count tiles
};

Tiling tiling_of(const Shape& shape, const Dims& repeats) {
  Tiling tiling;
  const int added = repeats.rank() - shape.rank();
  for (int i = 0; i < repeats.rank(); ++i) {
    const std::int64_t size = i < added ? 1 : shape[i - added];
    if (repeats[i] != 1) {
      tiling.repeated.push_back(tiling.tiles.rank());
      tiling.source.push_back(1);
      tiling.tiles.push_back(repeats[i]);
    }
    if (size != 1) {
      tiling.source.push_back(size);
      tiling.tiles.push_back(size);
    }
  }
  return tiling;
}

struct RepeatNode final : Node {
  RepeatNode() : Node("repeat") {}
  Dims repeats;
  Grads backward(Tensor g, const Wanted&) override {
    const Tiling tiling = tiling_of(input_shape(0), repeats);
    Tensor dx = reshape(g, tiling.tiles);
    if (!tiling.repeated.empty()) dx = sum(dx, tiling.repeated);
    return {reshape(dx, input_shape(0))};
  }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"repeats", to_string(repeats)}};
  }
};

struct FlipNode final : Node {
  FlipNode() : Node("flip") {}
  Dims dims;
  Grads backward(Tensor g, const Wanted&) override { return {flip(g, dims)}; }
  std::vector<Graph::Attribute> attributes() const override { return {{"dims", to_string(dims)}}; }
};

// x read from its last position to its first along dims.
View reversed(View x, const Dims& dims) {
  if (x.shape.empty()) return x;  // one element, in whatever order
  std::int64_t offset = 0;
  for (const std::int64_t dim : dims) {
    offset += (x.shape[dim] - 1) * x.strides[dim];
    x.strides[dim] = -x.strides[dim];
  }
  x.data = x.as<std::byte>() + offset * static_cast<std::int64_t>(size_of(x.dtype));
  return x;
}

}  // namespace

Tensor clone(const Tensor& x) { return row_major_copy<CloneNode>("clone", x); }

Tensor contiguous(Tensor x) {
  if (x.defined() && x.is_contiguous()) return x;
  return row_major_copy<ContiguousNode>("contiguous", x);
}

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) {
  check_all_defined("cat", tensors);
  const Tensor& first = tensors.front();
  if (first.rank() == 0)
    throw ShapeError("cat", "tensors[0] " + describe(first) + " has no dim to join along");
  const std::int64_t d = normalize_dim("cat", dim, first.shape(), "tensors[0]");
  check_joinable("cat", tensors, d);
  Shape shape = first.shape();
  for (std::size_t i = 1; i < tensors.size(); ++i)
    shape[d] = count_sum(shape[d], tensors[i].shape()[d]);  // too much for empty(), if not to count
  Tensor y = empty("cat", shape, first.dtype());
  launch([&] {
    std::int64_t offset = 0;
    for (const Tensor& x : tensors) {
      copy_values(alias(y, x.shape(), y.strides(), offset).view(), x.view());
      offset += x.shape()[d] * y.strides()[d];
    }
  });
  return record<CatNode>(y, pointers(tensors), [&](CatNode& node) { node.dim = d; });
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  check_all_defined("stack", tensors);
  const Tensor& first = tensors.front();
  const std::int64_t d = normalize_new_dim("stack", dim, first.shape(), "tensors[0]");
  check_joinable("stack", tensors, -1);
  Shape shape = first.shape();
  shape.insert(d, static_cast<std::int64_t>(tensors.size()));
  Tensor y = empty("stack", shape, first.dtype());
  Strides strides = y.strides();
  strides.erase(d);
  launch([&] {
    std::int64_t offset = 0;
    for (const Tensor& x : tensors) {
      copy_values(alias(y, x.shape(), strides, offset).view(), x.view());
      offset += y.strides()[d];
    }
  });
  return record<StackNode>(y, pointers(tensors), [&](StackNode& node) { node.dim = d; });
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  check_computes("repeat", "x", x);
  if (repeats.rank() < x.rank())
    throw ShapeError("repeat", "x " + describe(x) + " by repeats " + to_string(repeats) +
                                   ": a number for each dim must be given");
  for (const std::int64_t count : repeats)
    if (count < 0)
      throw ValueError("repeat", "x " + describe(x) + " by repeats " + to_string(repeats) +
                                     ": a number is negative");
  const Tiling tiling = tiling_of(x.shape(), repeats);
  check_shape("repeat", tiling.tiles, size_of(x.dtype()));
  Shape shape = repeats;
  for (int i = 0; i < x.rank(); ++i) shape[repeats.rank() - x.rank() + i] *= x.shape()[i];
  Tensor y = empty("repeat", shape, x.dtype());
  launch([&] {
    const Tape::Pause pause;  // the views are only there to be copied
    const Tensor tiles = expand(reshape(x, tiling.source), tiling.tiles);
    copy_values(reshape(y, tiling.tiles).view(), tiles.view());
  });
  return record<RepeatNode>(y, {&x}, [&](RepeatNode& node) { node.repeats = repeats; });
}

Tensor flip(const Tensor& x, const Dims& dims) {
  check_computes("flip", "x", x);
  // An empty list is no dim at all here; normalize_dims would read it as all of them.
  const Dims reversed_dims = dims.empty() ? dims : normalize_dims("flip", dims, x.shape());
  Tensor y = empty("flip", x.shape(), x.dtype());
  launch([&] { copy_values(y.view(), reversed(x.view(), reversed_dims)); });
  return record<FlipNode>(y, {&x}, [&](FlipNode& node) { node.dims = reversed_dims; });
}

}  // namespace tapehead
