// The program `tapehead` as a child process.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

namespace tapehead::tests {

/// Its exit code; -1 when a signal ended it. The shell sees `arguments`, redirections too, and
/// starts in `folder`.
inline int run_program(const std::string& arguments, const std::string& folder = ".") {
  const std::string command = "cd '" + folder + "' && '" TAPEHEAD_PROGRAM "' " + arguments;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tapehead::tests
