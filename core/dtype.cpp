#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>

namespace tapehead::detail {

void reject_dtype(DType dtype) {
  throw DTypeError("kernel", "it does not compute in " + std::string(to_string(dtype)));
}

}  // namespace tapehead::detail
