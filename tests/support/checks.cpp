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

}  // namespace tapehead::tests
