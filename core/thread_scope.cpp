#include <tapehead/core/thread_scope.h>

#include <cstdio>
#include <exception>

namespace tapehead::detail {

void cannot_destroy(const char* what, const char* why) noexcept {
  std::fprintf(stderr, "tapehead: %s was destroyed %s\n", what, why);
  std::terminate();
}

}  // namespace tapehead::detail
