// A folder for the files of one test case.
#pragma once

#include <filesystem>
#include <iterator>
#include <string>

#include <unistd.h>

namespace tapehead::tests {

/// An empty folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tapehead_tests-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path file(const char* name = "file") const { return path_ / name; }
  /// Number of files in it.
  std::ptrdiff_t size() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tapehead::tests
