#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/give_back.h>
#include <tapehead/ops/kernels/index.h>
#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/masked.h>

namespace tapehead {
namespace {

struct MaskedFillNode final : Node {
  MaskedFillNode() : Node("masked_fill") {}
  Saved mask{*this, "mask", {0}, "dx = 0 where mask else g"};
  double value = 0;
  Grads backward(Tensor g, const Wanted&) override {
    return {masked_fill(std::move(g), mask.get(), 0)};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"value", value}}; }
};

template <bool lower>
constexpr const char* triangle_name = lower ? "tril" : "triu";

template <bool lower>
Tensor triangle(Tensor x, std::int64_t diagonal);

template <bool lower>
struct TriangleNode final : Node {
  TriangleNode() : Node(triangle_name<lower>) {}
  std::int64_t diagonal = 0;
  Grads backward(Tensor g, const Wanted&) override {
    return {triangle<lower>(std::move(g), diagonal)};
  }
  std::vector<Graph::Attribute> attributes() const override { return {{"diagonal", diagonal}}; }
};

template <bool lower>
Tensor triangle(Tensor x, std::int64_t diagonal) {
  constexpr const char* name = triangle_name<lower>;
  check_computes(name, "x", x);
  if (x.rank() < 2) throw ShapeError(name, "x " + describe(x) + " must have at least two dims");
  Tensor y = donate_or_empty(name, x, x.shape(), x.dtype());
  launch([&] { kernels::triangle(y.view(), x.view(), diagonal, lower); });
  return record<TriangleNode<lower>>(y, {&x},
                                     [&](TriangleNode<lower>& node) { node.diagonal = diagonal; });
}

}  // namespace

Tensor masked_fill(Tensor x, const Tensor& mask, double value) {
  const GiveBack give_back(x);
  check_computes("masked_fill", "x", x);
  check_dtype("masked_fill", "mask", mask, DType::boolean);
  if (!broadcasts_to(mask.shape(), x.shape()))
    throw ShapeError("masked_fill",
                     "mask " + describe(mask) + " does not broadcast to x " + describe(x));
  Tensor y = donate_or_empty("masked_fill", x, x.shape(), x.dtype());
  launch([&] {
    visit_numbers(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T fill = convert<T>(value);
      // The mask is read as bytes: compilers make no vectors of bools.
      kernels::binary<T, unsigned char, T>(
          x.view(), mask.view(),
          y.view(), [fill](T xi, unsigned char masked) __attribute__((always_inline)) {
            return masked != 0 ? fill : xi;
          });
    });
  });
  return record<MaskedFillNode>(y, {&x}, [&](MaskedFillNode& node) {
    node.value = value;
    node.mask.save(mask);
  });
}

Tensor tril(Tensor x, std::int64_t diagonal) { return triangle<true>(std::move(x), diagonal); }
Tensor triu(Tensor x, std::int64_t diagonal) { return triangle<false>(std::move(x), diagonal); }

}  // namespace tapehead
