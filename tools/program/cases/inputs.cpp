#include "inputs.h"

#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tapehead::program {
namespace {

// What no operation may read: NaN, 0 or true.
double filler(DType dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::quiet_NaN();
  return dtype == DType::boolean ? 1 : 0;
}

Tensor build_sliced(const CaseTensor& input) {
  Shape padded = input.values.shape();
  padded[input.slice_dim] += 3;
  const Tensor storage = full(padded, filler(input.values.dtype()), input.values.dtype());
  Tensor slice = narrow(storage, input.slice_dim, 2, input.values.size(input.slice_dim));
  copy_(slice, input.values);
  return slice;
}

Tensor build_layout(const CaseTensor& input) {
  switch (input.layout) {
    case Layout::row_major: return clone(input.values);
    case Layout::transposed: return transpose(clone(transpose(input.values, -1, -2)), -1, -2);
    case Layout::expanded: return expand(clone(input.base), input.values.shape());
    case Layout::sliced: return build_sliced(input);
  }
  return {};
}

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

bool holds_values(const Tensor& tensor, const Tensor& values) {
  if (tensor.dtype() == DType::i64)
    return tensor.to_vector<std::int64_t>() == values.to_vector<std::int64_t>();
  const std::vector<double> a = tensor.to_vector(), b = values.to_vector();
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

Tensor build(const CaseTensor& input, const std::string& source) {
  try {
    Tensor built = build_layout(input);
    if (!holds_values(built, input.values))
      throw CaseFormatError(source + ": " + input.name + ": base_data does not show the data");
    return input.requires_grad ? parameter(std::move(built)) : built;
  } catch (const Error& error) {
    throw CaseFormatError(source + ": " + input.name + ": " + error.what());
  }
}

std::vector<Call::Input> build_inputs(const Case& c, const std::string& source) {
  std::vector<Call::Input> inputs;
  for (const CaseTensor& input : c.inputs) inputs.push_back({input.name, build(input, source)});
  if (c.alias.empty()) return inputs;
  Tensor shared;
  for (const Call::Input& input : inputs)
    if (input.name == c.alias[0]) shared = input.tensor;
  for (std::size_t i = 1; i < c.alias.size(); ++i) inputs.push_back({c.alias[i], shared});
  return inputs;
}

}  // namespace tapehead::program
