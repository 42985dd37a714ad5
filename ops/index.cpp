#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/kernels/index.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/views.h>

namespace tapehead {
namespace {

// ---- checks, and what gradients are added into --------------------------------------------------

// The positions that `index` holds must lie in dim `dim` of x.
void check_positions(const char* operation, const Tensor& x, std::int64_t dim, const Tensor& index,
                     const char* x_name = "x", const char* index_name = "index") {
  const std::int64_t size = x.shape()[dim];
  if (const auto bad = kernels::first_outside(index.view(), size))
    throw IndexError(operation, std::string(index_name) + " " + describe(index) + " holds " +
                                    std::to_string(*bad) + ", outside [0, " + std::to_string(size) +
                                    "), dim " + std::to_string(dim) + " of " + x_name + " " +
                                    describe(x));
}

// The dim of x that index looks at.
std::int64_t indexed_dim(const char* operation, const Tensor& x, std::int64_t dim,
                         const Tensor& index) {
  check_computes(operation, "x", x);
  check_dtype(operation, "index", index, DType::i64);
  if (x.rank() == 0) throw ShapeError(operation, "x " + describe(x) + " has no dim to index");
  return normalize_dim(operation, dim, x.shape());
}

void check_vector(const char* operation, const Tensor& index) {
  if (index.rank() != 1)
    throw ShapeError(operation, "index " + describe(index) + " must have one dim");
}

// index goes with x in gather and scatter_add.
void check_goes_with(const char* operation, const Tensor& x, std::int64_t dim,
                     const Tensor& index) {
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == dim || index.shape()[i] <= x.shape()[i];
  if (!fits)
    throw ShapeError(operation, "index " + describe(index) + " must have the rank of x " +
                                    describe(x) + " and, but for dim " + std::to_string(dim) +
                                    ", no larger size");
}

// src can be added to parts of x that have the shape `wanted`.
void check_source(const char* operation, const Tensor& x, const Tensor& src, const Shape& wanted) {
  check_floating(operation, "x", x);
  check_same_dtype(operation, x, src, "x", "src");
  if (src.shape() != wanted)
    throw ShapeError(operation, "src " + describe(src) + " must have shape " + to_string(wanted) +
                                    " to be added to parts of x " + describe(x));
}

// A 1-D index of dim, expanded to `shape`.
View along(const View& index, std::int64_t dim, const Shape& shape) {
  View view{index.data, index.dtype, shape, Strides(shape.rank(), 0)};
  view.strides[dim] = index.strides[0];
  return view;
}

// The values of x in a row-major tensor that may be written to: x's own when it may be.
Tensor writable(const char* operation, const Tensor& x) {
  Tensor y = donate(x, x.shape(), x.dtype());
  return y.defined() ? y : copied(operation, x);
}

// The gradient of a tensor of which the positions `index` of dim were read: g added to what there
// is of it, or else to zeros.
Tensor pull_slices(const Node& node, const Wanted& wanted, std::int64_t dim, const Tensor& index,
                   const Tensor& g) {
  if (Tensor partial = wanted.take_partial(0); partial.defined()) {
    launch([&] {
      kernels::scatter_add(partial.view(), dim, along(index.view(), dim, g.shape()), g.view());
    });
    return partial;
  }
  Tensor zeros = filled("index_add", node.input_shape(0), g.dtype(), 0.0);
  return index_add(std::move(zeros), dim, index, g);
}

// ---- the nodes ----------------------------------------------------------------------------------

struct EmbeddingNode final : Node {
  EmbeddingNode() : Node("embedding") {}
  Saved indices{*this, "indices", {0}, "dweight = rows of g added at indices"};
  std::optional<std::int64_t> padding_idx;
  Grads backward(Tensor g, const Wanted& wanted) override {
    const Tensor& rows = indices.get();
    if (padding_idx)
      g = masked_fill(std::move(g), unsqueeze(eq(rows, static_cast<double>(*padding_idx)), -1), 0);
    const std::int64_t count = rows.numel(), width = input_shape(0)[1];
    return {pull_slices(*this, wanted, 0, reshape(rows, {count}), reshape(g, {count, width}))};
  }
  std::vector<Graph::Attribute> attributes() const override {
    if (!padding_idx) return {};
    return {{"padding_idx", *padding_idx}};
  }
};

struct IndexSelectNode final : Node {
  IndexSelectNode() : Node("index_select") {}
  Saved index{*this, "index", {0}, "dx = slices of g added at index"};
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    return {pull_slices(*this, wanted, dim, index.get(), g)};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

struct IndexAddNode final : Node {
  IndexAddNode() : Node("index_add") {}
  Saved index{*this, "index", {1}, "dsrc = slices of g at index"};
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor dsrc;
    if (wanted[1]) dsrc = index_select(g, dim, index.get());
    return {g, dsrc};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

struct GatherNode final : Node {
  GatherNode() : Node("gather") {}
  Saved index{*this, "index", {0}, "dx = g added at index"};
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    const Tensor& positions = index.get();
    if (Tensor partial = wanted.take_partial(0); partial.defined()) {
      launch([&] { kernels::scatter_add(partial.view(), dim, positions.view(), g.view()); });
      return {partial};
    }
    Tensor zeros = filled("scatter_add", input_shape(0), g.dtype(), 0.0);
    return {scatter_add(std::move(zeros), dim, positions, g)};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

struct ScatterAddNode final : Node {
  ScatterAddNode() : Node("scatter_add") {}
  Saved index{*this, "index", {1}, "dsrc = g read at index"};
  std::int64_t dim = 0;
  Grads backward(Tensor g, const Wanted& wanted) override {
    Tensor dsrc;
    if (wanted[1]) dsrc = gather(g, dim, index.get());
    return {g, dsrc};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"dim", dim}}; }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices,
                 std::optional<std::int64_t> padding_idx) {
  check_computes("embedding", "weight", weight);
  check_dtype("embedding", "indices", indices, DType::i64);
  if (weight.rank() != 2)
    throw ShapeError("embedding", "weight " + describe(weight) + " must have two dims");
  const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
  if (padding_idx && (*padding_idx < -rows || *padding_idx >= rows))
    throw IndexError("embedding", "padding_idx " + std::to_string(*padding_idx) +
                                      " is outside the rows of weight " + describe(weight));
  check_rank("embedding", indices.rank() + 1, indices.shape(), "indices");
  Shape shape = indices.shape();
  shape.push_back(width);
  Tensor y = empty("embedding", shape, weight.dtype());
  const Tensor flat = reshape(indices, {indices.numel()});
  launch([&] {
    check_positions("embedding", weight, 0, indices, "weight", "indices");
    View to = y.view();
    to.shape = {indices.numel(), width};
    to.strides = {width, 1};
    kernels::gather(to, weight.view(), 0, along(flat.view(), 0, to.shape));
  });
  return record<EmbeddingNode>(y, {&weight}, [&](EmbeddingNode& node) {
    if (padding_idx) node.padding_idx = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    node.indices.save(indices);
  });
}

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const std::int64_t d = indexed_dim("index_select", x, dim, index);
  check_vector("index_select", index);
  Shape shape = x.shape();
  shape[d] = index.numel();
  Tensor y = empty("index_select", shape, x.dtype());
  launch([&] {
    check_positions("index_select", x, d, index);
    kernels::gather(y.view(), x.view(), d, along(index.view(), d, shape));
  });
  return record<IndexSelectNode>(y, {&x}, [&](IndexSelectNode& node) {
    node.dim = d;
    node.index.save(index);
  });
}

Tensor index_add(Tensor x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const GiveBack give_back(x);
  const std::int64_t d = indexed_dim("index_add", x, dim, index);
  check_vector("index_add", index);
  Shape shape = x.shape();
  shape[d] = index.numel();
  check_source("index_add", x, src, shape);
  launch([&] { check_positions("index_add", x, d, index); });
  Tensor y = writable("index_add", x);
  launch([&] { kernels::scatter_add(y.view(), d, along(index.view(), d, shape), src.view()); });
  return record<IndexAddNode>(y, {&x, &src}, [&](IndexAddNode& node) {
    node.dim = d;
    node.index.save(index);
  });
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const std::int64_t d = indexed_dim("gather", x, dim, index);
  check_goes_with("gather", x, d, index);
  Tensor y = empty("gather", index.shape(), x.dtype());
  launch([&] {
    check_positions("gather", x, d, index);
    kernels::gather(y.view(), x.view(), d, index.view());
  });
  return record<GatherNode>(y, {&x}, [&](GatherNode& node) {
    node.dim = d;
    node.index.save(index);
  });
}

Tensor scatter_add(Tensor x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const GiveBack give_back(x);
  const std::int64_t d = indexed_dim("scatter_add", x, dim, index);
  check_goes_with("scatter_add", x, d, index);
  check_source("scatter_add", x, src, index.shape());
  launch([&] { check_positions("scatter_add", x, d, index); });
  Tensor y = writable("scatter_add", x);
  launch([&] { kernels::scatter_add(y.view(), d, index.view(), src.view()); });
  return record<ScatterAddNode>(y, {&x, &src}, [&](ScatterAddNode& node) {
    node.dim = d;
    node.index.save(index);
  });
}

}  // namespace tapehead
