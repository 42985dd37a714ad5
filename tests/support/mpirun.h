// The program `tapehead` as several ranks that mpirun starts.
#pragma once

#include "folder.h"

#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cstdlib>
#include <string>

namespace tapehead::tests {

/// Whether there is an mpirun, and the program was built for it. Says loudly when not; ctest takes
/// such a test for a skipped one.
inline bool has_mpirun() {
  const bool there = *TAPEHEAD_MPIRUN != '\0';
  if (!there) MESSAGE("SKIPPED: built without MPI");
  return there;
}

/// Runs `mpirun -n ranks tapehead arguments` in the folder, with its output in out.txt and err.txt,
/// and returns the exit code. `meanwhile` is what the shell does until it waits for mpirun, whose
/// process is $m.
inline int mpirun(const Folder& folder, int ranks, const std::string& arguments,
                  const std::string& meanwhile = ":") {
  // Tests run side by side: ranks that are bound to cores would be bound to the same.
  const std::string command =
      "cd '" + folder.file("").string() +
      "' && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 && { '" TAPEHEAD_MPIRUN
      "' --oversubscribe --bind-to none -n " +
      std::to_string(ranks) + " '" TAPEHEAD_PROGRAM "' " + arguments +
      " > out.txt 2> err.txt & m=$!; " + meanwhile + "; wait $m; }";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tapehead::tests
