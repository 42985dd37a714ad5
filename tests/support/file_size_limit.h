// A disk that is full, for one process: files cannot grow beyond a size.
#pragma once

#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>
#include <cstddef>

namespace tapehead::tests {

/// While it lives, a write beyond `bytes` of a file fails with EFBIG, "File too large".
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace tapehead::tests
