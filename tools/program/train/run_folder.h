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
  /// Moves the files of an earlier run into the folder `previous` in it, in the place of those of
  /// the run before, and returns that folder. IoError.
  std::filesystem::path set_earlier_run_aside() const;

  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  std::filesystem::path folder_;
  int lock_;  // descriptor
};

}  // namespace tapehead::program
