// One call of an operation that a case asks for: its inputs by name and its arguments with their
// types. What is missing, of the wrong type or asked for by nobody is the file's fault.
#pragma once

#include <tapehead/core/tensor.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tapehead::program {

class Call {
 public:
  struct Input {
    std::string name;
    Tensor tensor;
  };

  /// `where` (file and case) opens error texts; `args` outlives the call.
  Call(std::string where, std::vector<Input> inputs, const nlohmann::json& args)
      : where_(std::move(where)), inputs_(std::move(inputs)), args_(args) {}

  /// An input that the operation must have.
  Tensor operator[](const std::string& input);
  /// Undefined when the case does not give it.
  Tensor optional(const std::string& input);
  /// The inputs prefix0, prefix1, ... as far as they go.
  std::vector<Tensor> numbered(const std::string& prefix);

  /// The arguments. Each must be there; the optional ones may be null.
  std::int64_t integer(const char* key);
  std::optional<std::int64_t> optional_integer(const char* key);
  /// Written as an integer or not, or as "nan", "inf", "-inf".
  double number(const char* key);
  std::optional<double> optional_number(const char* key);
  bool truth(const char* key);
  std::string text(const char* key);
  const nlohmann::json& object(const char* key);
  std::vector<std::int64_t> integers(const char* key);
  std::vector<double> numbers(const char* key);
  Dims dims(const char* key);
  /// Dims to reduce over: one, a list, or null for all, which is an empty list.
  Dims reduced_dims(const char* key = "dim");
  bool is_list(const char* key);

  /// CaseFormatError when an input or an argument was not asked for.
  void finish() const;

  const std::vector<Input>& inputs() const { return inputs_; }

 private:
  const nlohmann::json& argument(const char* key);
  [[noreturn]] void fail(const std::string& what) const;
  const Input* find(const std::string& input);

  std::string where_;
  std::vector<Input> inputs_;
  const nlohmann::json& args_;
  std::set<std::string> asked_inputs_;
  std::set<std::string> asked_args_;
};

}  // namespace tapehead::program
