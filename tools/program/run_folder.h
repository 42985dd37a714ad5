// The folder of a training run, which one process at a time writes to.
#pragma once

#include <filesystem>

namespace tapehead::program {

class RunFolder {
 public:
  /// Makes the folder if need be, locks it, finds out that files can be written there, and removes
  /// what a run left behind that was killed while it wrote. IoError, also when another process
  /// holds the lock. The lock of a process that died is no obstacle.
  explicit RunFolder(const std::filesystem::path& folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  int lock_;  // descriptor
};

}  // namespace tapehead::program
