#include <tapehead/nn/state_reader.h>
#include <tapehead/ops/create.h>

namespace tapehead::nn {

StateReader::StateReader(const char* operation, const StateDict& state)
    : operation_(operation), state_(state) {
  for (const NamedTensor& entry : state)
    if (!left_.emplace(entry.name, &entry.tensor).second) complain(entry.name, "is there twice");
}

Tensor StateReader::take(const std::string& name, const Shape& shape, DType dtype) {
  const auto found = left_.find(name);
  if (found == left_.end()) {
    complain(name, "is missing");
    return {};
  }
  const Tensor& value = *found->second;
  left_.erase(found);
  if (value.defined() && value.shape() == shape) {
    if (value.dtype() == dtype) return value;
    const bool computes = is_floating(dtype) && !is_storage_only(dtype);
    if (computes && is_storage_only(value.dtype())) return to(value, dtype);
  }
  const Tensor unnamed = value.defined() ? value.detach() : value;
  complain(name, "is " + describe(unnamed) + " in place of " + std::string(to_string(dtype)) + " " +
                     to_string(shape));
  return {};
}

void StateReader::complain(const std::string& name, const std::string& problem) {
  if (!problems_.empty()) problems_ += "; ";
  problems_ += "\"" + name + "\" " + problem;
}

void StateReader::finish() {
  for (const NamedTensor& entry : state_)
    if (left_.erase(entry.name) != 0) complain(entry.name, "is unexpected");
  if (!problems_.empty()) throw ValueError(operation_, problems_);
}

}  // namespace tapehead::nn
