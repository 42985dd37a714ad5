#include "cases_call.h"

#include <tapehead/nn/strict_json.h>

#include <nlohmann/json.hpp>

#include "cases_format.h"

namespace tapehead::program {

using nlohmann::json;

const Call::Input* Call::find(const std::string& input) {
  asked_inputs_.insert(input);
  for (const Input& candidate : inputs_)
    if (candidate.name == input) return &candidate;
  return nullptr;
}

Tensor Call::operator[](const std::string& input) {
  const Input* found = find(input);
  if (!found) fail("the input \"" + input + "\" is missing");
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

const json& Call::argument(const char* key) {
  const auto found = args_.find(key);
  if (found == args_.end()) fail(std::string("the argument \"") + key + "\" is missing");
  asked_args_.insert(key);
  return *found;
}

std::int64_t Call::integer(const char* key) {
  const std::optional<std::int64_t> value = nn::integer_of(argument(key));
  if (!value) fail(std::string("the argument \"") + key + "\" is not an integer");
  return *value;
}

std::optional<std::int64_t> Call::optional_integer(const char* key) {
  if (argument(key).is_null()) return {};
  return integer(key);
}

double Call::number(const char* key) {
  const std::optional<double> value = number_from_json(argument(key));
  if (!value) fail(std::string("the argument \"") + key + "\" is not a number");
  return *value;
}

std::optional<double> Call::optional_number(const char* key) {
  if (argument(key).is_null()) return {};
  return number(key);
}

bool Call::truth(const char* key) {
  const json& value = argument(key);
  if (!value.is_boolean()) fail(std::string("the argument \"") + key + "\" is not true or false");
  return value.get<bool>();
}

std::string Call::text(const char* key) {
  const json& value = argument(key);
  if (!value.is_string()) fail(std::string("the argument \"") + key + "\" is not a string");
  return value.get<std::string>();
}

const json& Call::object(const char* key) {
  const json& value = argument(key);
  if (!value.is_object()) fail(std::string("the argument \"") + key + "\" is not an object");
  return value;
}

bool Call::is_list(const char* key) { return argument(key).is_array(); }

std::vector<std::int64_t> Call::integers(const char* key) {
  std::vector<std::int64_t> list;
  if (!is_list(key)) fail(std::string("the argument \"") + key + "\" is not a list");
  for (const json& entry : argument(key)) {
    const std::optional<std::int64_t> value = nn::integer_of(entry);
    if (!value) fail(std::string("\"") + key + "\" holds what is no integer");
    list.push_back(*value);
  }
  return list;
}

std::vector<double> Call::numbers(const char* key) {
  std::vector<double> list;
  if (!is_list(key)) fail(std::string("the argument \"") + key + "\" is not a list");
  for (const json& entry : argument(key)) {
    const std::optional<double> value = number_from_json(entry);
    if (!value) fail(std::string("\"") + key + "\" holds what is no number");
    list.push_back(*value);
  }
  return list;
}

Dims Call::dims(const char* key) {
  const std::vector<std::int64_t> list = integers(key);
  return Dims(std::span<const std::int64_t>(list));
}

Dims Call::reduced_dims(const char* key) {
  if (argument(key).is_null()) return {};
  return is_list(key) ? dims(key) : Dims{integer(key)};
}

void Call::finish() const {
  for (const Input& input : inputs_)
    if (!asked_inputs_.contains(input.name))
      fail("no operation reads the input \"" + input.name + "\"");
  for (const auto& [key, value] : args_.items())
    if (!asked_args_.contains(key)) fail("no operation reads the argument \"" + key + "\"");
}

void Call::fail(const std::string& what) const { throw CaseFormatError(where_ + ": " + what); }

}  // namespace tapehead::program
