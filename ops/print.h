// Tensors as text.
#pragma once

#include <tapehead/core/tensor.h>

#include <iosfwd>
#include <string>

namespace tapehead {

/// The values in brackets, one row a line, then what cannot be seen from them:
///
///     tensor([[1, 2],
///             [3, 4]], f32)
///
/// Floating numbers are printed as integers if all that are shown are, else with four decimals, or
/// in scientific form when their sizes lie far apart. Of a tensor with more than 1000 elements only
/// the first and last three positions of each dim are shown, and its shape follows; so it does when
/// a size is 0. A tensor without values reads "tensor(undefined)", or when it was made in a dry run
/// "tensor(no values, f32 (2, 3))".
std::string to_string(const Tensor& x);
/// @{
/// Writes to_string of it: of a shape "(2, 3)".
std::ostream& operator<<(std::ostream& out, const Tensor& x);
std::ostream& operator<<(std::ostream& out, const Dims& dims);
/// @}

}  // namespace tapehead
