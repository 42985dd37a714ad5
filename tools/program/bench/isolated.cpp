#include "isolated.h"

#include <tapehead/core/error.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

namespace tapehead::program::bench {
namespace {

constexpr int worked = 0, failed = 1;

bool write_all(int file, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = write(file, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    written += static_cast<std::size_t>(n);
  }
  return true;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t n = 0; (n = read(file, part.data(), part.size())) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(part.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Ends at once: what the parent has buffered for its streams is the parent's to write.
[[noreturn]] void run_as_child(const std::function<std::string()>& work, int file) {
  std::string text;
  int exit_code = worked;
  try {
    text = work();
  } catch (const std::exception& error) {
    text = error.what();
    exit_code = failed;
  }
  _exit(write_all(file, text) ? exit_code : failed);
}

std::string last_error() { return std::strerror(errno); }

}  // namespace

Isolated run_isolated(const std::function<std::string()>& work) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) throw IoError("bench", "no pipe: " + last_error());
  const pid_t child = fork();
  if (child < 0) {
    const std::string why = last_error();
    for (const int end : ends) close(end);
    throw IoError("bench", "no process: " + why);
  }
  if (child == 0) run_as_child(work, ends[1]);
  close(ends[1]);
  Isolated result{.text = read_all(ends[0]), .complaint = ""};
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) result.complaint = "signal " + std::to_string(WTERMSIG(status));
  else if (WEXITSTATUS(status) != worked) result.complaint = result.text;
  return result;
}

}  // namespace tapehead::program::bench
