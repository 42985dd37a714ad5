#include "checks.h"

namespace tapehead::tests {

std::optional<Thrown> thrown_by(FunctionRef<void()> call) {
  try {
    call();
  } catch (const Error& error) {
    return Thrown{error.kind(), error.what()};
  }
  return std::nullopt;
}

void check_throws(ErrorKind kind, std::initializer_list<std::string_view> fragments,
                  FunctionRef<void()> call) {
  const std::optional<Thrown> thrown = thrown_by(call);
  REQUIRE_MESSAGE(thrown.has_value(), "nothing was thrown");
  CHECK_MESSAGE(thrown->kind == kind, "thrown was: ", thrown->text);
  for (const std::string_view fragment : fragments)
    CHECK_MESSAGE(contains(thrown->text, fragment), "\"", std::string(fragment),
                  "\" is not in: ", thrown->text);
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace tapehead::tests
