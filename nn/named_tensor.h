// A tensor with its name: the entries of state dicts, optimizer states and safetensors files.
#pragma once

#include <tapehead/core/tensor.h>

#include <string>
#include <vector>

namespace tapehead::nn {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Names are unique; the order is that of the modules, and has no meaning to a reader.
using StateDict = std::vector<NamedTensor>;

}  // namespace tapehead::nn
