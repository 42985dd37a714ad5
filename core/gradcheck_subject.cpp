#include <tapehead/core/arithmetic.h>
#include <tapehead/core/gradcheck_subject.h>
#include <tapehead/core/random.h>

#include <algorithm>
#include <cmath>

namespace tapehead::detail {
namespace {

// A leaf with the values, strides and offset of x on a storage of its own.
Tensor leaf_with_layout_of(const Tensor& x) {
  const auto places = static_cast<std::int64_t>(x.storage()->bytes() / size_of(x.dtype()));
  Tensor all = copied("gradcheck", alias(x, {places}, {1}, 0));
  Tensor same = alias(all, x.shape(), x.strides(), x.offset());
  all = Tensor();
  return parameter(std::move(same));
}

Results lay_out(const char* check, const std::vector<Tensor>& outputs) {
  Results results;
  for (const Tensor& output : outputs) {
    check_defined(check, "a result of f", output);
    if (!is_floating(output.dtype())) continue;
    results.segments.push_back({output.shape(), output.dtype(), results.values.size()});
    const Values values = output.to_vector();
    results.values.insert(results.values.end(), values.begin(), values.end());
  }
  return results;
}

// Results that do not change have slope 0, infinite ones as well.
Values scaled_difference(const Results& after, const Results& before, double width) {
  Values slope(after.values.size(), 0.0);
  for (std::size_t k = 0; k < slope.size(); ++k)
    if (after.values[k] != before.values[k])
      slope[k] = (after.values[k] - before.values[k]) / width;
  return slope;
}

}  // namespace

Values random_weights(std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  Values weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto words = philox(seed, stream << 32 | i);
    const double size = 0.5 + words[0] * 0x1p-32;
    weights[i] = words[1] & 1u ? size : -size;
  }
  return weights;
}

Subject::Subject(const char* check, const CheckedFunction& f, const std::vector<Tensor>& inputs)
    : check_(check), f_(f), inputs_(inputs) {
  for (const Tensor& input : inputs) point_.push_back(input.to_vector());
  base_ = call(point_);
}

Results Subject::call(const std::vector<Values>& point) const {
  const Tape::Pause pause;
  std::vector<Tensor> leaves;  // leaves, so that f may take gradients on a tape that it opens
  for (std::size_t i = 0; i < point.size(); ++i)
    leaves.push_back(parameter(from_vector(point[i], inputs_[i].shape())));
  return lay_out(check_, f_(leaves));
}

Results Subject::evaluate(const std::vector<Values>& point) const {
  Results results = call(point);
  if (results.segments != base_.segments)
    throw ValueError(check_, "two calls of f gave results of different shapes or dtypes");
  return results;
}

Values Subject::differences(std::size_t input, std::size_t element, double eps) const {
  std::vector<Values> point = point_;
  double& x = point[input][element];
  const double half = eps * std::max(1.0, std::abs(x));
  const double left = x - half, right = x + half;
  x = right;
  const Results after = evaluate(point);
  x = left;
  return scaled_difference(after, evaluate(point), right - left);
}

Values Subject::differences(const std::vector<Values>& direction, double eps) const {
  const auto moved = [&](double step) {
    std::vector<Values> point = point_;
    for (std::size_t i = 0; i < point.size(); ++i)
      for (std::size_t k = 0; k < point[i].size(); ++k) point[i][k] += step * direction[i][k];
    return evaluate(point);
  };
  const Results after = moved(eps);
  return scaled_difference(after, moved(-eps), 2 * eps);
}

Subject::Run::Run(const Subject& subject) : reached_(subject.inputs().size(), false) {
  for (const Tensor& input : subject.inputs()) leaves_.push_back(leaf_with_layout_of(input));
  for (Tensor& output : subject.f_(leaves_))
    if (is_floating(output.dtype())) outputs_.push_back(std::move(output));
  results_ = lay_out(subject.check_, outputs_);
}

std::vector<Values> Subject::Run::gradients(const Values& upstream) {
  std::vector<Tensor> ys, seeds;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    if (!outputs_[k].requires_grad()) continue;  // a constant: its gradient is zero
    const Segment& segment = results_.segments[k];
    const auto begin = upstream.begin() + static_cast<std::ptrdiff_t>(segment.begin);
    ys.push_back(outputs_[k]);
    seeds.push_back(
        from_vector(Values(begin, begin + outputs_[k].numel()), segment.shape, segment.dtype));
  }
  const Gradients found = tape_.gradient(ys, leaves_, seeds, {.keep = true});
  std::vector<Values> gradients;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    gradients.push_back(found[leaves_[i]].to_vector());
    reached_[i] = reached_[i] || found.reached(leaves_[i]);
  }
  return gradients;
}

}  // namespace tapehead::detail
