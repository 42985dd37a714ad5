#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>

namespace tapehead::detail {

void reject_dtype(DType dtype) {
  throw DTypeError("kernel", "it does not compute in " + std::string(to_string(dtype)));
}

void reject_element_type(DType dtype, DType wanted) {
  throw DTypeError("view", "elements of " + std::string(to_string(dtype)) +
                               " cannot be taken as those of " + std::string(to_string(wanted)));
}

}  // namespace tapehead::detail
