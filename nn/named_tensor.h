// A tensor with its name: the entries of state dicts, optimizer states and safetensors files.
#pragma once

#include <tapehead/core/tensor.h>

#include <string>
#include <vector>

namespace tapehead::nn {

/// An entry of a state dict.
struct NamedTensor {
  std::string name;  ///< dotted: "layers.0.norm1.weight"
  Tensor tensor;     ///< a handle, not a copy
};

/// Names are unique; the order is that of the modules, and has no meaning to a reader.
using StateDict = std::vector<NamedTensor>;

}  // namespace tapehead::nn
