#include "variation.h"

#include <tapehead/core/random.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

namespace tapehead::tests {
namespace {

constexpr std::array all_layouts{Layout::contiguous, Layout::transposed, Layout::expanded,
                                 Layout::sliced};

double uniform_at(std::uint64_t stream, std::size_t i) { return random_bits(stream, i) * 0x1p-32; }

// A shuffled grid: neighbours in value are 0.2 apart, nothing is closer than 0.04 to 0, and no two
// inputs share a value.
std::vector<double> apart_values(std::size_t count, std::uint64_t stream) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return random_bits(stream, a) < random_bits(stream, b);
  });
  std::vector<double> values(count);
  const std::size_t middle = count / 2;
  for (std::size_t i = 0; i < count; ++i)
    values[order[i]] = 0.2 * (static_cast<double>(i) - static_cast<double>(middle)) + 0.04 +
                       0.03 * static_cast<double>(stream % 4);
  return values;
}

double value_at(const Input& input, std::uint64_t stream, std::size_t i) {
  const double u = uniform_at(stream, i);
  switch (input.domain) {
    case Domain::real: return 4 * u - 2;
    case Domain::positive: return 0.5 + 2 * u;
    case Domain::probability: return 0.05 + 0.9 * u;
    case Domain::index:
      return static_cast<double>(random_bits(stream, i) % static_cast<std::uint64_t>(input.limit));
    case Domain::mask: return i < 2 ? static_cast<double>(i) : u < 0.4;
    case Domain::apart: break;
  }
  return 0;
}

// What must never be read.
double poison(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::quiet_NaN();
  return dtype == DType::boolean ? 1 : -7;
}

// Puts `values` where `strides` and `offset` say in a storage of `places`.
Tensor scatter(const std::vector<double>& values, const Shape& shape, DType dtype,
               const Strides& strides, std::int64_t offset, std::int64_t places) {
  std::vector<double> all(static_cast<std::size_t>(places), poison(dtype));
  const StridedLoop<1> loop = merge_dims<1>(shape, {&strides});
  auto next = values.begin();
  for_each_run(loop, 0, numel(shape), [&](const auto& starts, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      all[static_cast<std::size_t>(offset + starts[0] + i * loop.inner_stride(0))] = *next++;
  });
  const Tensor base = from_vector(all, {places}, dtype);
  return alias(base, shape, strides, offset);
}

Tensor transposed(const std::vector<double>& values, const Shape& shape, DType dtype) {
  const int rank = shape.rank();
  if (rank == 1) return scatter(values, shape, dtype, {2}, 0, 2 * shape[0]);
  Shape in_memory = shape;
  std::swap(in_memory[rank - 1], in_memory[rank - 2]);
  Strides strides = contiguous_strides(in_memory);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return scatter(values, shape, dtype, strides, 0, numel(shape));
}

Tensor sliced(const std::vector<double>& values, const Shape& shape, DType dtype) {
  Shape in_memory = shape;
  if (!shape.empty()) in_memory[shape.rank() - 1] += 3;
  return scatter(values, shape, dtype, contiguous_strides(in_memory), 2, numel(in_memory) + 3);
}

// The values of position 0 of the repeated dim stand for all.
Tensor expanded(const std::vector<double>& values, const Shape& shape, DType dtype) {
  const auto dim = static_cast<std::int64_t>(
      std::find_if(shape.begin(), shape.end(), [](std::int64_t n) { return n > 1; }) -
      shape.begin());
  if (dim == shape.rank()) return from_vector(values, shape, dtype);
  Shape base = shape;
  base[dim] = 1;
  const Tensor all = from_vector(values, shape);
  const std::vector<double> kept = alias(all, base, all.strides(), 0).to_vector();
  Strides strides = contiguous_strides(base);
  strides[dim] = 0;
  return alias(from_vector(kept, base, dtype), shape, strides, 0);
}

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::contiguous: return "contiguous";
    case Layout::transposed: return "transposed";
    case Layout::expanded: return "expanded";
    case Layout::sliced: return "sliced";
  }
  return "?";
}

}  // namespace

bool Variation::is_contiguous() const {
  return std::all_of(layouts.begin(), layouts.end(),
                     [](Layout layout) { return layout == Layout::contiguous; });
}

bool Variation::has_ties(const OperationCase& row) const {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i] == Layout::expanded && row.inputs()[i].domain == Domain::apart) return true;
  return false;
}

std::string describe(const OperationCase& row, const Variation& variation) {
  std::string text = row.name();
  for (std::size_t i = 0; i < variation.shapes.size(); ++i)
    text += " " + to_string(variation.shapes[i]) + " " + std::string(name_of(variation.layouts[i]));
  return text + " " + std::string(to_string(variation.dtype));
}

namespace {

// The row's own shapes with every dim of the same size, where the call takes that: a rule that
// forgets a transpose goes unnoticed unless the wrong result has the right shape.
std::optional<Variation> squared(const OperationCase& row) {
  Variation v{row.shapes().front(), std::vector(row.inputs().size(), Layout::contiguous)};
  for (Shape& shape : v.shapes)
    for (std::int64_t& size : shape)
      if (size > 1) size = 3;
  try {
    row.call(make_inputs(row, v));
  } catch (const Error&) {
    return std::nullopt;
  }
  return v;
}

}  // namespace

std::vector<Variation> shape_variations(const OperationCase& row) {
  std::vector<Variation> variations;
  for (std::vector<Shape>& shapes : row.shapes())
    variations.push_back({shapes, std::vector(row.inputs().size(), Layout::contiguous)});
  if (auto square = squared(row)) variations.push_back(std::move(*square));
  return variations;
}

Variation with_mixed_layouts(Variation v) {
  for (std::size_t i = 0; i < v.layouts.size(); ++i)
    v.layouts[i] = all_layouts[(i + 1) % all_layouts.size()];
  return v;
}

std::vector<Variation> layout_variations(const OperationCase& row) {
  std::vector<Variation> variations;
  const std::size_t count = row.inputs().size();
  for (const Variation& v : shape_variations(row)) {
    for (const Layout layout : all_layouts)
      variations.push_back({v.shapes, std::vector(count, layout)});
    for (std::size_t shift = 0; count > 1 && shift < all_layouts.size(); ++shift) {
      Variation mixed = v;
      for (std::size_t i = 0; i < count; ++i)
        mixed.layouts[i] = all_layouts[(shift + i) % all_layouts.size()];
      variations.push_back(std::move(mixed));
    }
  }
  return variations;
}

std::vector<double> values_of(const Input& input, const Shape& shape, std::size_t position) {
  const auto count = static_cast<std::size_t>(numel(shape));
  if (input.domain == Domain::apart) return apart_values(count, position);
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_at(input, position, i);
  return values;
}

Tensor lay_out(const std::vector<double>& values, const Shape& shape, DType dtype, Layout layout) {
  switch (layout) {
    case Layout::transposed:
      if (!shape.empty()) return transposed(values, shape, dtype);
      break;
    case Layout::expanded: return expanded(values, shape, dtype);
    case Layout::sliced: return sliced(values, shape, dtype);
    case Layout::contiguous: break;
  }
  return from_vector(values, shape, dtype);
}

std::vector<Tensor> make_inputs(const OperationCase& row, const Variation& variation) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < row.inputs().size(); ++i) {
    const Input& input = row.inputs()[i];
    const DType dtype = input.domain == Domain::index  ? DType::i64
                        : input.domain == Domain::mask ? DType::boolean
                                                       : variation.dtype;
    inputs.push_back(lay_out(values_of(input, variation.shapes[i], i), variation.shapes[i], dtype,
                             variation.layouts[i]));
  }
  return inputs;
}

std::vector<Tensor> make_leaves(const OperationCase& row, const Variation& variation) {
  std::vector<Tensor> inputs = make_inputs(row, variation);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (row.inputs()[i].is_differentiable()) inputs[i] = parameter(std::move(inputs[i]));
  return inputs;
}

std::vector<Tensor> make_upstream(const std::vector<Tensor>& results, Layout layout) {
  std::vector<Tensor> upstream(results.size());
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!is_floating(results[k].dtype())) continue;
    const Shape& shape = results[k].shape();
    upstream[k] =
        lay_out(values_of(real(shape), shape, 100 + k), shape, results[k].dtype(), layout);
  }
  return upstream;
}

std::vector<Tensor> differentiable(const OperationCase& row, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> chosen;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (row.inputs()[i].is_differentiable()) chosen.push_back(inputs[i]);
  return chosen;
}

}  // namespace tapehead::tests
