#include <tapehead/core/dry_run.h>
#include <tapehead/core/record.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/kernels/layer_norm.h>
#include <tapehead/ops/kernels/reduce.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/pointwise.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/reduce_node.h>
#include <tapehead/ops/statistics.h>

#include <cmath>

namespace tapehead {
namespace {

void check_parameter(const char* operation, const char* name, const Tensor& x,
                     const Shape& normalized_shape, const Tensor& parameter) {
  if (!parameter.defined()) return;
  check_same_dtype(operation, x, parameter, "x", name);
  if (parameter.shape() != normalized_shape)
    throw ShapeError(operation, std::string(name) + " " + describe(parameter) +
                                    " must have the normalized shape " +
                                    to_string(normalized_shape));
}

void check_input(const char* operation, const Tensor& x, const Shape& normalized_shape,
                 double eps) {
  check_floating(operation, "x", x);
  if (!(eps >= 0 && std::isfinite(eps)))
    throw ValueError(operation, "eps " + format_number(eps) + ": must be finite and not negative");
  const int leading = x.rank() - normalized_shape.rank();
  bool fits = normalized_shape.rank() > 0 && leading >= 0;
  for (int i = 0; fits && i < normalized_shape.rank(); ++i)
    fits = x.shape()[leading + i] == normalized_shape[i];
  if (!fits)
    throw ShapeError(operation, "x " + describe(x) + " must end in the normalized shape " +
                                    to_string(normalized_shape) + " of at least one dim");
}

void* data_or_null(const Tensor& tensor) { return tensor.defined() ? tensor.view().data : nullptr; }

// The rule as recorded operations: everything from x on is computed again, for the saved statistics
// are constants. As one, the saved rstd scales the deviations, whose squares could overflow.
struct Composed {
  Tensor xhat, rstd;
  Dims over;

  Composed(const Tensor& x, const Tensor& scale, int normalized_rank, double eps, bool centered) {
    for (int i = 0; i < normalized_rank; ++i) over.push_back(i - normalized_rank);
    const Tensor scaled = mul(centered ? detail::deviation(x, over) : x, scale);
    const Tensor power = mean(square(scaled), over, true);
    // eps * scale^2, where scale^2 may be beyond the largest number though the product is not.
    const Tensor floor = square(mul(scale, std::sqrt(eps)));
    const Tensor root = rsqrt(add(power, floor));
    rstd = mul(root, scale);
    xhat = mul(scaled, root);
  }

  Tensor input_gradient(Tensor u, bool centered) const {
    const Tensor along = mean(mul(u, xhat), over, true);
    if (centered) {
      const Tensor center = mean(u, over, true);
      u = sub(std::move(u), center);
    }
    Tensor projection = mul(xhat, along);
    return mul(sub(std::move(u), std::move(projection)), rstd);
  }
};

template <bool centered>
struct NormNode final : Node {
  NormNode() : Node(centered ? "layer_norm" : "rms_norm") {}
  static constexpr const char* reason =
      centered ? "dx = rstd * (u - mean(u) - xhat * mean(u * xhat)), dweight = sum(g * xhat)"
               : "dx = rstd * (u - xhat * mean(u * xhat)), dweight = sum(g * xhat)";
  Saved x{*this, "x", {0, 1}, reason};
  Saved mean{*this, "mean", {0, 1}, reason, Saved::Exact{}};
  Saved rstd{*this, "rstd", {0, 1}, reason, Saved::Exact{}};
  Saved weight{*this, "weight", {0}, "u = g * weight"};
  int normalized_rank = 1;
  double eps = 0;

  Grads backward(Tensor g, const Wanted& wanted) override {
    const bool dweight = inputs().size() > 1 && wanted[1];
    const bool dbias = inputs().size() > 2 && wanted[2];
    if (!wanted[0] && !dweight) return {Tensor(), Tensor(), sum_to(g, parameter_shape())};
    if (Tape::recording()) return composed(g, wanted[0], dweight, dbias);
    return fused(std::move(g), wanted[0], dweight, dbias);
  }

  std::vector<Graph::Attribute> attributes() const override {
    return {{"normalized_shape", to_string(parameter_shape())}, {"eps", eps}};
  }

 private:
  Shape parameter_shape() const {
    const Shape shape = input_shape(0);
    return Shape(
        std::span<const std::int64_t>(shape).last(static_cast<std::size_t>(normalized_rank)));
  }

  Grads composed(const Tensor& g, bool want_x, bool want_weight, bool want_bias) {
    const Composed norm(x.get(), rstd.get(), normalized_rank, eps, centered);
    Tensor dx, dweight, dbias;
    if (want_x) {
      const Tensor u = weight.kept() ? mul(g, weight.get()) : g;
      dx = norm.input_gradient(u, centered);
    }
    if (want_weight) dweight = sum_to(mul(g, norm.xhat), parameter_shape());
    if (want_bias) dbias = sum_to(g, parameter_shape());
    return {dx, dweight, dbias};
  }

  Grads fused(Tensor g, bool want_x, bool want_weight, bool want_bias) {
    const bool want_sums = want_weight || want_bias;
    const DType dtype = g.dtype();
    const Shape shape = parameter_shape();
    const std::int64_t n = numel(shape), rows = n == 0 ? 0 : g.numel() / n;
    const std::int64_t chunks = kernels::norm_chunks(rows);
    const Tensor upstream = contiguous(std::exchange(g, Tensor()));
    Tensor dx, dweight, dbias, weight_parts, bias_parts;
    if (want_x) dx = donate_or_empty(operation(), upstream, upstream.shape(), dtype);
    if (want_weight) dweight = empty(operation(), shape, dtype);
    if (want_bias) dbias = empty(operation(), shape, dtype);
    if (want_sums) {
      weight_parts = empty(operation(), {chunks, n}, DType::f64);
      bias_parts = empty(operation(), {chunks, n}, DType::f64);
    }
    const Tensor weight_row = weight.kept() ? contiguous(weight.get()) : Tensor();
    const Tensor x_ = x.get(), mean_ = mean.get_or_none(), rstd_ = rstd.get();
    launch([&] {
      kernels::NormBackward args{};
      args.g = upstream.view().data;
      args.x = x_.view().data;
      args.mean = data_or_null(mean_);
      args.rstd = rstd_.view().data;
      args.weight = data_or_null(weight_row);
      args.dx = data_or_null(dx);
      args.dweight = static_cast<double*>(data_or_null(weight_parts));
      args.dbias = static_cast<double*>(data_or_null(bias_parts));
      args.rows = rows;
      args.n = n;
      kernels::norm_backward(dtype, args);
      if (want_weight) kernels::sum(weight_parts.view(), detail::view_as(dweight, {1, n}));
      if (want_bias) kernels::sum(bias_parts.view(), detail::view_as(dbias, {1, n}));
    });
    return {dx, dweight, dbias};
  }
};

template <bool centered>
Tensor normalize(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                 const Tensor& bias, double eps) {
  const char* operation = centered ? "layer_norm" : "rms_norm";
  const Tensor x = contiguous(input);
  const std::int64_t n = numel(normalized_shape), rows = n == 0 ? 0 : x.numel() / n;
  Shape statistics = x.shape();
  for (int i = 1; i <= normalized_shape.rank(); ++i) statistics[x.rank() - i] = 1;
  Tensor y = empty(operation, x.shape(), x.dtype());
  Tensor mean = centered ? empty(operation, statistics, x.dtype()) : Tensor();
  Tensor rstd = empty(operation, statistics, x.dtype());
  const Tensor weight_row = weight.defined() ? contiguous(weight.detach()) : Tensor();
  const Tensor bias_row = bias.defined() ? contiguous(bias.detach()) : Tensor();
  launch([&] {
    kernels::NormForward args{};
    args.x = x.view().data;
    args.weight = data_or_null(weight_row);
    args.bias = data_or_null(bias_row);
    args.y = y.view().data;
    args.mean = data_or_null(mean);
    args.rstd = rstd.view().data;
    args.rows = rows;
    args.n = n;
    args.eps = eps;
    kernels::norm_forward(x.dtype(), args);
  });
  const std::array<const Tensor*, 3> inputs{&x, &weight, &bias};
  const std::size_t given = bias.defined() ? 3u : weight.defined() ? 2u : 1u;
  return record<NormNode<centered>>(y, std::span(inputs).first(given), [&](auto& node) {
    node.normalized_rank = normalized_shape.rank();
    node.eps = eps;
    node.x.save(x);
    node.rstd.save(rstd);
    if (centered) node.mean.save(mean);
    if (weight.defined()) node.weight.save(weight);
  });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  check_input("layer_norm", x, normalized_shape, eps);
  check_parameter("layer_norm", "weight", x, normalized_shape, weight);
  check_parameter("layer_norm", "bias", x, normalized_shape, bias);
  if (weight.defined() || !bias.defined())
    return normalize<true>(x, normalized_shape, weight, bias, eps);
  return add(normalize<true>(x, normalized_shape, {}, {}, eps), bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  check_input("rms_norm", x, normalized_shape, eps);
  check_parameter("rms_norm", "weight", x, normalized_shape, weight);
  return normalize<false>(x, normalized_shape, weight, {}, eps);
}

}  // namespace tapehead
