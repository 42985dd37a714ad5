#include <tapehead/core/copy.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

// ---- the same elements in the same order: reshape and its kin -----------------------------------

struct ReshapeNode : Node {
  explicit ReshapeNode(const char* operation = "reshape") : Node(operation) {}
  bool runs_in_any_dtype() const override { return true; }
  bool copied = false;
  Grads backward(Tensor g, const Wanted&) override { return {reshape(g, input_shape(0))}; }
  std::vector<Graph::Attribute> attributes() const override { return {{"copied", copied}}; }
};
struct FlattenNode final : ReshapeNode {
  FlattenNode() : ReshapeNode("flatten") {}
};
// Dims of size 1 come and go without a copy, so there is nothing to say about copying.
struct SqueezeNode final : ReshapeNode {
  SqueezeNode() : ReshapeNode("squeeze") {}
  std::vector<Graph::Attribute> attributes() const override { return {}; }
};
struct UnsqueezeNode final : ReshapeNode {
  UnsqueezeNode() : ReshapeNode("unsqueeze") {}
  std::vector<Graph::Attribute> attributes() const override { return {}; }
};

// Strides that walk a tensor of `shape` and `strides` in the same order under the shape `to` (which
// has as many elements), if there are any. Dims of `shape` that are walked as one merge into
// chunks; the dims of `to`, taken from the back, must fill each chunk exactly.
std::optional<Strides> reshaped_strides(const Shape& shape, const Strides& strides,
                                        const Shape& to) {
  if (numel(shape) == 0 || is_contiguous(shape, strides)) return contiguous_strides(to);
  const StridedLoop<1> chunks = merge_dims<1>(shape, {&strides});
  Strides result(to.rank(), 0);
  int i = to.rank() - 1;
  for (int chunk = chunks.shape.rank() - 1; chunk >= 0; --chunk) {
    const std::int64_t size = chunks.shape[chunk], step = chunks.strides[0][chunk];
    std::int64_t filled = 1;
    for (; i >= 0 && (filled < size || to[i] == 1); --i) {
      result[i] = filled * step;
      filled *= to[i];
    }
    if (filled != size) return std::nullopt;
  }
  return result;
}

// Puts the size that -1 stands for in its place.
Shape completed_shape(const Tensor& x, const Shape& shape) {
  const std::string what = "x " + describe(x) + " to " + to_string(shape) + ": ";
  const auto fail = [&](const char* rule) { throw ShapeError("reshape", what + rule); };
  Shape known = shape;
  int unknown = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] >= 0) continue;
    if (shape[i] < -1) throw ValueError("reshape", what + "a size is negative");
    if (unknown >= 0) fail("only one size may be -1");
    unknown = i;
    known[i] = 1;
  }
  if (!bytes_fit(known, size_of(x.dtype()))) fail("its size in bytes does not fit in 63 bits");
  const std::int64_t rest = numel(known);
  if (unknown >= 0) {
    if (rest == 0) fail("-1 is not determined beside a size of 0");
    if (x.numel() % rest != 0) fail("the other sizes do not divide the number of elements");
    known[unknown] = x.numel() / rest;
  } else if (rest != x.numel()) {
    fail("the number of elements must stay the same");
  }
  return known;
}

// x under another shape of as many elements, recorded as a NodeType.
template <class NodeType>
Tensor reshaped(const char* operation, const Tensor& x, const Shape& shape) {
  const std::optional<Strides> strides = reshaped_strides(x.shape(), x.strides(), shape);
  Tensor y;
  if (strides) {
    y = alias(x, shape, *strides, x.offset());
  } else {
    y = empty(operation, shape, x.dtype());
    launch([&] {
      View to = y.any_view();
      to.shape = x.shape();
      to.strides = contiguous_strides(x.shape());
      copy_values(to, x.any_view());
    });
  }
  return record<NodeType>(y, {&x}, [&](NodeType& node) { node.copied = !strides; });
}

// ---- the dims in another order, or repeated -----------------------------------------------------

struct TransposeNode final : Node {
  TransposeNode() : Node("transpose") {}
  bool runs_in_any_dtype() const override { return true; }
  std::int64_t dim0 = 0, dim1 = 0;
  Grads backward(Tensor g, const Wanted&) override { return {transpose(g, dim0, dim1)}; }
  std::vector<Graph::Attribute> attributes() const override {
    return {{"dim0", dim0}, {"dim1", dim1}};
  }
};

struct PermuteNode final : Node {
  PermuteNode() : Node("permute") {}
  bool runs_in_any_dtype() const override { return true; }
  Dims dims;
  Grads backward(Tensor g, const Wanted&) override {
    Dims inverse(dims.rank(), 0);
    for (int i = 0; i < dims.rank(); ++i) inverse[dims[i]] = i;
    return {permute(g, inverse)};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dims", to_string(dims)}}; }
};

struct ExpandNode final : Node {
  ExpandNode() : Node("expand") {}
  bool runs_in_any_dtype() const override { return true; }
  Grads backward(Tensor g, const Wanted&) override {
    if (!is_storage_only(g.dtype())) return {sum_to(std::move(g), input_shape(0))};
    const Tensor sums = sum_to(to(g, DType::f32), input_shape(0));
    return {to(sums, g.dtype())};
  }
};

// `shape` with the sizes that -1 keeps.
Shape expanded_shape(const Tensor& x, const Shape& shape) {
  const int added = shape.rank() - x.rank();
  const auto fail = [&](const std::string& rule) {
    throw ShapeError("expand", "x " + describe(x) + " to " + to_string(shape) + ": " + rule);
  };
  if (added < 0) fail("as many dims as x has, or more, must be given");
  Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t size = i < added ? 1 : x.shape()[i - added];
    if (shape[i] == -1) {
      if (i < added) fail("a new dim has no size for -1 to keep");
      result[i] = size;
    } else if (size != 1 && shape[i] != size) {
      fail("dim " + std::to_string(i - shape.rank()) + " has size " + std::to_string(size) +
           ", and only size 1 can be repeated");
    }
  }
  check_shape("expand", result, size_of(x.dtype()));
  return result;
}

}  // namespace

Tensor reshape(Tensor x, const Shape& shape) {
  const GiveBack give_back(x);
  check_defined("reshape", "x", x);
  return reshaped<ReshapeNode>("reshape", x, completed_shape(x, shape));
}

Tensor flatten(Tensor x, std::int64_t start_dim, std::int64_t end_dim) {
  const GiveBack give_back(x);
  check_defined("flatten", "x", x);
  const std::int64_t start = normalize_dim("flatten", start_dim, x.shape());
  const std::int64_t end = normalize_dim("flatten", end_dim, x.shape());
  if (start > end)
    throw ShapeError("flatten", "x " + describe(x) + ": end_dim " + std::to_string(end_dim) +
                                    " stands before start_dim " + std::to_string(start_dim));
  if (x.rank() == 0) return reshaped<FlattenNode>("flatten", x, {1});
  Shape shape;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i > start && i <= end) shape[start] *= x.shape()[i];
    else shape.push_back(x.shape()[i]);
  }
  return reshaped<FlattenNode>("flatten", x, shape);
}

Tensor squeeze(Tensor x, std::optional<std::int64_t> dim) {
  const GiveBack give_back(x);
  check_defined("squeeze", "x", x);
  const std::int64_t only = dim ? normalize_dim("squeeze", *dim, x.shape()) : -1;
  Shape shape;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    const bool drops = x.shape()[i] == 1 && (!dim || i == only);
    if (!drops) shape.push_back(x.shape()[i]);
  }
  return reshaped<SqueezeNode>("squeeze", x, shape);
}

Tensor unsqueeze(Tensor x, std::int64_t dim) {
  const GiveBack give_back(x);
  check_defined("unsqueeze", "x", x);
  Shape shape = x.shape();
  shape.insert(normalize_new_dim("unsqueeze", dim, x.shape()), 1);
  return reshaped<UnsqueezeNode>("unsqueeze", x, shape);
}

Tensor transpose(Tensor x, std::int64_t dim0, std::int64_t dim1) {
  const GiveBack give_back(x);
  check_defined("transpose", "x", x);
  const std::int64_t a = normalize_dim("transpose", dim0, x.shape());
  const std::int64_t b = normalize_dim("transpose", dim1, x.shape());
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (a != b) {
    std::swap(shape[a], shape[b]);
    std::swap(strides[a], strides[b]);
  }
  return record<TransposeNode>(alias(x, shape, strides, x.offset()), {&x},
                               [&](TransposeNode& node) {
                                 node.dim0 = a;
                                 node.dim1 = b;
                               });
}

Tensor permute(Tensor x, const Dims& dims) {
  const GiveBack give_back(x);
  check_defined("permute", "x", x);
  if (dims.rank() != x.rank())
    throw ShapeError("permute", "x " + describe(x) + " by dims " + to_string(dims) +
                                    ": each dim of x must be given once");
  const Dims order = normalize_dims("permute", dims, x.shape());
  Shape shape;
  Strides strides;
  for (const std::int64_t dim : order) {
    shape.push_back(x.shape()[dim]);
    strides.push_back(x.strides()[dim]);
  }
  return record<PermuteNode>(alias(x, shape, strides, x.offset()), {&x},
                             [&](PermuteNode& node) { node.dims = order; });
}

Tensor expand(Tensor x, const Shape& shape) {
  const GiveBack give_back(x);
  check_defined("expand", "x", x);
  const Shape to = expanded_shape(x, shape);
  const Strides strides = expanded_strides(x.shape(), x.strides(), to);
  return record<ExpandNode>(alias(x, to, strides, x.offset()), {&x}, [](ExpandNode&) {});
}

}  // namespace tapehead
