#include <tapehead/core/error.h>
#include <tapehead/core/scope.h>

#include <array>

namespace tapehead {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::shape: return "shape";
    case ErrorKind::index: return "index";
    case ErrorKind::dtype: return "dtype";
    case ErrorKind::value: return "value";
    case ErrorKind::state: return "state";
    case ErrorKind::io: return "io";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::nan: return "nan";
  }
  return "unknown";
}

namespace {

std::string compose(std::string_view operation, std::string_view message) {
  std::string text(operation);
  text += ": ";
  text += message;
  if (const std::string& path = ModuleScope::path(); !path.empty()) text += " [in " + path + "]";
  return text;
}

}  // namespace

Error::Error(ErrorKind kind, std::string_view operation, std::string_view message)
    : std::runtime_error(compose(operation, message)), kind_(kind) {}

std::string format_number(double value) {
  std::array<char, 32> text;  // the longest, -2.2250738585072014e-308, has 24 characters
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), end.ptr);
}

std::string format_number(double value, std::chars_format style, int digits) {
  std::array<char, 512> text;  // the largest number has 309 digits before the point
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, style, digits);
  return std::string(text.data(), end.ptr);
}

}  // namespace tapehead
