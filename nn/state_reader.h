// Strict reading of a state dict: what is loaded into asks for its entries one by one, everything
// that does not fit is collected, and one error lists it all before anything is written. Internal.
#pragma once

#include <tapehead/nn/named_tensor.h>

#include <string>
#include <unordered_map>

namespace tapehead::nn {

class StateReader {
 public:
  /// `operation` opens the error text; it and `state` outlive the reader.
  StateReader(const char* operation, const StateDict& state);

  /// The entry of that name; undefined, and complained of, when it is missing or of another shape
  /// or dtype. What is stored in bf16 or f16 is converted to an f32 or f64 that is asked for, for
  /// these hold it exactly; a conversion that might round is the caller's, with to(). A name can be
  /// taken once.
  Tensor take(const std::string& name, const Shape& shape, DType dtype);

  /// Adds a problem to the list: "\"name\" " and what is wrong with it.
  void complain(const std::string& name, const std::string& problem);

  /// ValueError that lists all problems, and as such every entry that nobody took.
  void finish();

 private:
  const char* operation_;
  const StateDict& state_;
  std::unordered_map<std::string, const Tensor*> left_;
  std::string problems_;
};

}  // namespace tapehead::nn
