// POSIX calls, because the C++ library has no way to ask that bytes be on the disk.
#include <tapehead/core/error.h>
#include <tapehead/nn/io/atomic_file.h>

#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace tapehead::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* mark = ".tmp-";  // of temporary files, after the name of the target

std::string system_message(int code) { return std::generic_category().message(code); }

// A new file beside `path`, under a name that nobody else has: the process and a count. A name left
// over by a process that died is passed over.
int create_beside(const fs::path& path, std::string& name) {
  static std::atomic<std::uint64_t> count{0};
  int descriptor;
  do {
    name = path.string() + mark + std::to_string(getpid()) + "-" + std::to_string(count++);
    descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

// A rename is on the disk only when the folder is. Some file systems refuse to synchronise a
// folder; the file's own bytes are safe by then, so that is no error.
void synchronise_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::string_view operation, fs::path path)
    : operation_(operation), path_(std::move(path)) {
  std::error_code ignored;
  const fs::file_status there = fs::status(path_, ignored);
  if (fs::exists(there) && !fs::is_regular_file(there))
    throw IoError(operation_, path_.string() + ": is no regular file, and will not be replaced");
  descriptor_ = create_beside(path_, temporary_);
  if (descriptor_ < 0) fail("cannot be created");
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  if (descriptor_ >= 0) close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view what) const {
  const int code = errno;
  throw IoError(operation_,
                path_.string() + ": " + std::string(what) + ": " + system_message(code));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("cannot be written to the disk");
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail("cannot be written");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  committed_ = true;
  synchronise_folder(path_);
}

void remove_leftovers(const fs::path& path) {
  const std::string beginning = path.filename().string() + mark;
  std::error_code ignored;
  fs::directory_iterator entries(path.has_parent_path() ? path.parent_path() : ".", ignored);
  for (; entries != fs::directory_iterator(); entries.increment(ignored))
    if (entries->path().filename().string().starts_with(beginning)) unlink(entries->path().c_str());
}

std::string read_file(std::string_view operation, const fs::path& path) {
  const auto fail = [&](int code) {
    throw IoError(operation, path.string() + ": cannot be read: " + system_message(code));
  };
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(errno);
  std::string content;
  char buffer[1 << 16];
  ssize_t count;
  while ((count = ::read(descriptor, buffer, sizeof buffer)) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    content.append(buffer, static_cast<std::size_t>(count));
  }
  const int code = errno;
  close(descriptor);
  if (count < 0) fail(code);
  return content;
}

}  // namespace tapehead::io
