#include "repository.h"

#include <tapehead/core/error.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#ifndef TAPEHEAD_SOURCE_DIR
#define TAPEHEAD_SOURCE_DIR ""
#endif

namespace tapehead::program {
namespace {

namespace fs = std::filesystem;

bool is_checkout(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "core" / "tape.h", ignored);
}

fs::path find_checkout() {
  if (is_checkout(TAPEHEAD_SOURCE_DIR)) return TAPEHEAD_SOURCE_DIR;
  for (fs::path folder = fs::current_path();; folder = folder.parent_path()) {
    if (is_checkout(folder)) return folder;
    if (folder == folder.parent_path()) break;
  }
  throw IoError("text",
                "no checkout of the repository is here to train on; name files with --text");
}

bool is_text(const fs::path& path) {
  static constexpr std::array<std::string_view, 7> endings = {".h",     ".cpp", ".md", ".txt",
                                                              ".cmake", ".py",  ".sh"};
  return std::find(endings.begin(), endings.end(), path.extension().string()) != endings.end();
}

// Build trees and hidden folders are no part of the text.
bool is_skipped(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with('.') || name.starts_with("build");
}

}  // namespace

std::vector<fs::path> repository_files() {
  std::vector<fs::path> files;
  const fs::path root = find_checkout();
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    if (entry->is_directory() && is_skipped(entry->path())) entry.disable_recursion_pending();
    else if (entry->is_regular_file() && is_text(entry->path()) && entry->file_size() > 0)
      files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tapehead::program
