// For operations that may work in the buffer of a by-value operand. Internal.
#pragma once

#include <tapehead/core/tensor.h>

#include <array>

namespace tapehead {

/// Drops the operands' handles when the operation returns. As arguments they would live on to the
/// end of the caller's statement, as second handles to what the result shows, and parameter(add(a,
/// b)) of two temporaries would not be the sole owner of its values. The first local of a function.
template <std::size_t count>
class GiveBack {
 public:
  template <class... Operands>
  explicit GiveBack(Operands&... operands) : operands_{&operands...} {}
  ~GiveBack() {
    for (Tensor* operand : operands_) *operand = Tensor();
  }
  GiveBack(const GiveBack&) = delete;
  GiveBack& operator=(const GiveBack&) = delete;

 private:
  std::array<Tensor*, count> operands_;
};
template <class... Operands>
GiveBack(Operands&...) -> GiveBack<sizeof...(Operands)>;

}  // namespace tapehead
