// One call of an operation that a case asks for: its inputs by name and its arguments with their
// types. What is missing, of the wrong type or asked for by nobody is the file's fault.
#pragma once

#include <tapehead/core/tensor.h>

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../json_object.h"

namespace tapehead::program {

class Call {
 public:
  struct Input {
    std::string name;
    Tensor tensor;
  };

  /// `where` (file and case) opens error texts; `args` outlives the call.
  Call(std::string where, std::vector<Input> inputs, const nlohmann::json& args);

  /// An input that the operation must have.
  Tensor operator[](const std::string& input);
  /// Undefined when the case does not give it.
  Tensor optional(const std::string& input);
  /// The inputs prefix0, prefix1, ... as far as they go.
  std::vector<Tensor> numbered(const std::string& prefix);

  /// The arguments. Each must be there; the optional ones may be null.
  std::int64_t integer(const char* key) { return args_.integer(key); }
  std::optional<std::int64_t> optional_integer(const char* key);
  /// Written as an integer or not, or as "nan", "inf", "-inf".
  double number(const char* key) { return args_.number(key); }
  std::optional<double> optional_number(const char* key);
  bool truth(const char* key) { return args_.truth(key); }
  std::string text(const char* key) { return args_.text(key); }
  const nlohmann::json& object(const char* key) { return args_.object(key); }
  std::vector<std::int64_t> integers(const char* key);
  std::vector<double> numbers(const char* key);
  std::array<double, 2> two_numbers(const char* key);
  Dims dims(const char* key);
  /// Dims to reduce over: one, a list, or null for all, which is an empty list.
  Dims reduced_dims(const char* key = "dim");
  bool is_list(const char* key);

  /// JsonError when an input or an argument was not asked for.
  void finish() const;

  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  const Input* find(const std::string& input);

  std::vector<Input> inputs_;
  std::set<std::string> asked_inputs_;
  JsonObject args_;
};

}  // namespace tapehead::program
