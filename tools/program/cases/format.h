// Case files, format "tapehead-cases/1": operations with inputs, arguments, expected outputs and
// expected gradients, computed by another framework. Here they are read and checked, not run.
#pragma once

#include <tapehead/core/tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tapehead::program {

/// The file is at fault, not the library: it is not a case file, or a case asks for an argument or
/// an input that its operation does not have. The text names file, case and field.
class CaseFormatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How an input lies in memory.
enum class Layout { row_major, transposed, expanded, sliced };

struct CaseTensor {
  std::string name;  ///< of inputs; empty for outputs and gradients
  Tensor values;     ///< the logical values, row-major
  bool requires_grad = false;
  Layout layout = Layout::row_major;
  Tensor base;                 ///< of Layout::expanded: what is expanded to the shape of values
  std::int64_t slice_dim = 0;  ///< of Layout::sliced
};

/// What a case expects, and how exactly.
struct Expected {
  std::vector<CaseTensor> outputs;
  /// One for each output, nothing where nothing is fed; empty for a case that runs forward only.
  std::vector<std::optional<CaseTensor>> grad_outputs;
  std::map<std::string, CaseTensor> grads;
  double rtol = 0;
  double atol = 0;
};

struct Case {
  std::string name;
  std::string operation;
  std::vector<CaseTensor> inputs;
  std::shared_ptr<const nlohmann::json> args;  ///< an object, without "alias"
  std::vector<std::string> alias;              ///< names of one tensor; the first is an input
  std::optional<Expected> expected;
  ErrorKind error = ErrorKind::value;  ///< the kind that must be raised when nothing is expected
};

/// The cases of a file, in its order. IoError when it cannot be read; CaseFormatError.
std::vector<Case> read_case_file(const std::filesystem::path& path);
/// The same from text; `source` stands in error texts.
std::vector<Case> parse_case_file(std::string_view text, const std::string& source);

}  // namespace tapehead::program
