// Assertions that several test files share.
#pragma once

#include <tapehead/core/error.h>

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>

namespace tapehead::tests {

/// What a call threw: the kind and the text; nothing when it returned.
struct Thrown {
  ErrorKind kind;
  std::string text;
  bool operator==(const Thrown&) const = default;
};

inline std::optional<Thrown> thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return Thrown{error.kind(), error.what()};
  }
  return std::nullopt;
}

/// Fails unless the call throws this kind with each of the `fragments` in its text.
inline void check_throws(ErrorKind kind, std::initializer_list<std::string> fragments,
                         const std::function<void()>& call) {
  const std::optional<Thrown> thrown = thrown_by(call);
  REQUIRE_MESSAGE(thrown.has_value(), "nothing was thrown");
  CHECK_MESSAGE(thrown->kind == kind, "thrown was: ", thrown->text);
  for (const std::string& fragment : fragments)
    CHECK_MESSAGE(thrown->text.find(fragment) != std::string::npos, "\"", fragment,
                  "\" is not in: ", thrown->text);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tapehead::tests
