#include <tapehead/core/thread_scope.h>

#include <cstdio>
#include <exception>

namespace tapehead::detail {

void destroyed_on_wrong_thread(const char* what) noexcept {
  std::fprintf(
      stderr,
      "tapehead: %s was destroyed on another thread than the one that made it, which would "
      "go on using it\n",
      what);
  std::terminate();
}

}  // namespace tapehead::detail
