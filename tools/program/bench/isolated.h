// Work in a process of its own, so that its memory is its own and its death nobody else's.
#pragma once

#include <functional>
#include <string>

namespace tapehead::program::bench {

struct Isolated {
  std::string text;       ///< what the work returned
  std::string complaint;  ///< what went wrong; empty when nothing did
};

/// Runs `work` in a child process. To be called before this process has started threads: a child
/// has only the one that made it. IoError when there is no process to be had.
Isolated run_isolated(const std::function<std::string()>& work);

}  // namespace tapehead::program::bench
