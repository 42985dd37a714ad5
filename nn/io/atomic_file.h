// Files that are whole or not there: what is written goes to a temporary file in the same folder,
// which takes the place of the target only when everything is on the disk. A reader, a crash or a
// full disk never sees half a file, and a failed write leaves the earlier file as it was. Internal.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tapehead::io {

class AtomicFile {
 public:
  /// Opens a temporary file beside `path` (whose folder exists). IoError names the path and what
  /// the system said; `operation` opens the text, in this and the other calls. What is there and is
  /// no regular file, a device for one, is not replaced: IoError.
  AtomicFile(std::string_view operation, std::filesystem::path path);
  /// Removes the temporary file unless commit() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes. IoError.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Flushes to the disk and renames the file to its target. IoError. Nothing may be written after.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view what) const;

  std::string operation_;
  std::filesystem::path path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Removes temporary files that writers of `path` left behind when they were killed. Only where
/// nobody else is writing it.
void remove_leftovers(const std::filesystem::path& path);

/// The whole of a file. IoError when it cannot be read.
std::string read_file(std::string_view operation, const std::filesystem::path& path);

}  // namespace tapehead::io
