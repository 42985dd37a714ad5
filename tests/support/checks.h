// Assertions that several test files share.
#pragma once

#include <tapehead/core/error.h>
#include <tapehead/core/parallel.h>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace tapehead::tests {

/// What a call threw: the kind and the text; nothing when it returned.
struct Thrown {
  ErrorKind kind;
  std::string text;
  bool operator==(const Thrown&) const = default;
};

std::optional<Thrown> thrown_by(FunctionRef<void()> call);

/// Fails unless the call throws this kind with each of the `fragments` in its text.
void check_throws(ErrorKind kind, std::initializer_list<std::string_view> fragments,
                  FunctionRef<void()> call);

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// How often the part stands in the text.
std::size_t count(std::string_view text, std::string_view part);

}  // namespace tapehead::tests
