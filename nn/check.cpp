#include <tapehead/core/error.h>
#include <tapehead/nn/check.h>

#include <cmath>

namespace tapehead::nn {
namespace {

[[noreturn]] void reject(std::string_view operation, std::string_view name,
                         const std::string& value, std::string_view rule) {
  throw ValueError(operation, std::string(name) + " " + value + " must be " + std::string(rule));
}

}  // namespace

void check_positive(std::string_view operation, std::string_view name, std::int64_t value) {
  if (value <= 0) reject(operation, name, std::to_string(value), "positive");
}

void check_probability(std::string_view operation, std::string_view name, double value) {
  if (!(value >= 0 && value <= 1)) reject(operation, name, format_number(value), "in [0, 1]");
}

void check_not_negative(std::string_view operation, std::string_view name, std::int64_t value) {
  if (value < 0) reject(operation, name, std::to_string(value), "at least 0");
}

void check_not_negative(std::string_view operation, std::string_view name, double value) {
  if (!(value >= 0 && std::isfinite(value)))
    reject(operation, name, format_number(value), "finite and not negative");
}

}  // namespace tapehead::nn
