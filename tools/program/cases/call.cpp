#include "call.h"

#include <tapehead/nn/io/strict_json.h>

#include <nlohmann/json.hpp>

namespace tapehead::program {

using nlohmann::json;

Call::Call(std::string where, std::vector<Input> inputs, const json& args)
    : inputs_(std::move(inputs)), args_(args, std::move(where), "the argument") {}

const Call::Input* Call::find(const std::string& input) {
  asked_inputs_.insert(input);
  for (const Input& candidate : inputs_)
    if (candidate.name == input) return &candidate;
  return nullptr;
}

Tensor Call::operator[](const std::string& input) {
  const Input* found = find(input);
  if (!found) args_.fail("the input \"" + input + "\" is missing");
  return found->tensor;
}

Tensor Call::optional(const std::string& input) {
  const Input* found = find(input);
  return found ? found->tensor : Tensor{};
}

std::vector<Tensor> Call::numbered(const std::string& prefix) {
  std::vector<Tensor> tensors;
  while (const Input* found = find(prefix + std::to_string(tensors.size())))
    tensors.push_back(found->tensor);
  return tensors;
}

std::optional<std::int64_t> Call::optional_integer(const char* key) {
  if (args_[key].is_null()) return {};
  return integer(key);
}

std::optional<double> Call::optional_number(const char* key) {
  if (args_[key].is_null()) return {};
  return number(key);
}

bool Call::is_list(const char* key) { return args_[key].is_array(); }

std::vector<std::int64_t> Call::integers(const char* key) {
  std::vector<std::int64_t> list;
  for (const json& entry : args_.list(key)) {
    const std::optional<std::int64_t> value = io::integer_of(entry);
    if (!value) args_.fail(std::string("\"") + key + "\" holds what is no integer");
    list.push_back(*value);
  }
  return list;
}

std::vector<double> Call::numbers(const char* key) {
  std::vector<double> list;
  for (const json& entry : args_.list(key)) {
    const std::optional<double> value = number_from_json(entry);
    if (!value) args_.fail(std::string("\"") + key + "\" holds what is no number");
    list.push_back(*value);
  }
  return list;
}

std::array<double, 2> Call::two_numbers(const char* key) {
  const std::vector<double> list = numbers(key);
  if (list.size() != 2)
    args_.fail(std::string("\"") + key + "\" holds " + std::to_string(list.size()) +
               " numbers, not two");
  return {list[0], list[1]};
}

Dims Call::dims(const char* key) {
  const std::vector<std::int64_t> list = integers(key);
  return Dims(std::span<const std::int64_t>(list));
}

Dims Call::reduced_dims(const char* key) {
  if (args_[key].is_null()) return {};
  return is_list(key) ? dims(key) : Dims{integer(key)};
}

void Call::finish() const {
  for (const Input& input : inputs_)
    if (!asked_inputs_.contains(input.name))
      args_.fail("no operation reads the input \"" + input.name + "\"");
  args_.finish();
}

}  // namespace tapehead::program
