#include "check_numbers.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tapehead::program {
namespace {

template <class T>
std::string range() {
  using Limits = std::numeric_limits<T>;
  return std::to_string(Limits::min()) + " to " + std::to_string(Limits::max());
}

// What is wrong with a number, empty when nothing is: what CLI11 asks of a validator. A whole
// number is handed on without leading zeros, which CLI11 would take for a sign of octal digits.
template <class T>
std::string complaint(std::string& text) {
  const char* const end = text.data() + text.size();
  T value{};
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stopped == end && std::isfinite(static_cast<double>(value))) {
    if constexpr (std::is_integral_v<T>) text = std::to_string(value);
    return "";
  }
  if constexpr (std::is_integral_v<T>) return text + " is not a whole number from " + range<T>();
  else return text + " is not a finite number of double precision";
}

}  // namespace

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type == "INT") option->transform(CLI::Validator(complaint<std::int64_t>, ""));
    if (type == "UINT") option->transform(CLI::Validator(complaint<std::uint64_t>, ""));
    if (type == "FLOAT") option->transform(CLI::Validator(complaint<double>, ""));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    check_numbers(*command);
}

}  // namespace tapehead::program
