#include "check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace tapehead::program::lecture {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// 0.005 for "0.19", 5e-9 for "2.2e-7".
double half_of_last_place(std::string_view number) {
  const std::size_t exponent_at = number.find('e');
  const std::string_view digits = number.substr(0, exponent_at);
  const std::size_t point = digits.find('.');
  double place = exponent_at == number.npos ? 0 : std::atof(&number[exponent_at + 1]);
  if (point != digits.npos) place -= static_cast<double>(digits.size() - point - 1);
  return 0.5 * std::pow(10, place);
}

}  // namespace

Quote::Quote(const char* printed) : text(printed) {
  char* end = nullptr;
  const double number = std::strtod(printed, &end);
  if (end == printed || *end != '\0') return;
  value = number;
  half_unit = half_of_last_place(text);
}

Bound exactly(double value) { return {Bound::On::ours, value, value}; }
Bound at_most(double value) { return {Bound::On::ours, -infinity, value}; }
Bound at_least(double value) { return {Bound::On::ours, value, infinity}; }

Bound rounds_to(const Quote& lecture) {
  // A figure half-way between two roundings may be printed as either; its own last bits may not
  // decide.
  const double reach = lecture.half_unit * (1 + 1e-9);
  return {Bound::On::ours, lecture.value.value() - reach, lecture.value.value() + reach};
}

Bound spread(double low, double high) { return {Bound::On::lecture, low, high}; }

bool Check::passed() const {
  if (bound.on == Bound::On::ours) return bound.low <= ours && ours <= bound.high;
  return lecture.value && bound.low <= *lecture.value + lecture.half_unit &&
         *lecture.value - lecture.half_unit <= bound.high;
}

void Group::add(std::string name, Quote lecture, double ours, Bound bound, std::string note) {
  checks.push_back({std::move(name), std::move(lecture), ours, bound, std::move(note)});
}

namespace {

std::string rounded(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

// With as many digits as it takes to tell the ends apart.
std::string interval(double low, double high) {
  int digits = 3;
  while (digits < 9 && std::abs(std::atof(rounded(low, digits).c_str()) - low) +
                               std::abs(std::atof(rounded(high, digits).c_str()) - high) >
                           0.1 * (high - low))
    ++digits;
  return rounded(low, digits) + " .. " + rounded(high, digits);
}

}  // namespace

std::string to_string(const Bound& bound) {
  if (bound.on == Bound::On::lecture) return "spread " + interval(bound.low, bound.high);
  if (bound.low == bound.high) return "= " + format(bound.low);
  if (bound.low == -infinity) return "<= " + format(bound.high);
  if (bound.high == infinity) return ">= " + format(bound.low);
  return interval(bound.low, bound.high);
}

std::string format(double value) {
  const bool whole = std::abs(value) < 1e9 && value == std::floor(value);
  return whole ? std::to_string(std::llround(value)) : rounded(value, 4);
}

}  // namespace tapehead::program::lecture
