// Builds the inputs of a case in the layouts that it asks for.
#pragma once

#include <vector>

#include "call.h"
#include "format.h"

namespace tapehead::program {

/// A tensor with the case's values in its layout, a leaf when it requires a gradient.
/// CaseFormatError when the layout's data does not show the values.
Tensor build(const CaseTensor& input, const std::string& source);

/// All inputs of a case, aliases included: handles to the same tensor.
std::vector<Call::Input> build_inputs(const Case& c, const std::string& source);

/// Whether `tensor` holds exactly these values, a NaN for a NaN.
bool holds_values(const Tensor& tensor, const Tensor& values);

}  // namespace tapehead::program
