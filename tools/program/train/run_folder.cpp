#include "run_folder.h"

#include <tapehead/core/error.h>
#include <tapehead/nn/io/atomic_file.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace tapehead::program {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_names[] = {"checkpoint.safetensors", "model.safetensors", "losses.csv",
                                      "graph.json", "graph.html"};

[[noreturn]] void fail(const fs::path& path, const std::string& what, int code = 0) {
  const std::string why = code ? ": " + std::generic_category().message(code) : "";
  throw IoError("train", path.string() + ": " + what + why);
}

void make(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(folder, "the folder cannot be made", error.value());
  if (!fs::is_directory(folder)) fail(folder, "the folder cannot be made: it is a file");
}

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Of two processes that want the lock only one gets it, and the system takes it from one that ends,
// however it ends. The file itself stays: removing it would let two hold locks on two files.
void lock_file(int descriptor, const fs::path& folder) {
  struct flock lock = whole_file();
  if (fcntl(descriptor, F_SETLK, &lock) == 0) return;
  const int code = errno;
  if (code != EACCES && code != EAGAIN) fail(folder, "the folder cannot be locked", code);
  const bool known = fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  fail(folder, "another run is writing there" +
                   (known ? " (process " + std::to_string(lock.l_pid) + ")" : ""));
}

}  // namespace

RunFolder::RunFolder(const fs::path& folder) : folder_(folder) {
  make(folder);
  lock_ = open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail(folder, "the folder cannot be written to", errno);
  try {
    lock_file(lock_, folder);
    const io::AtomicFile probe("train", folder / file_names[0]);  // never committed
  } catch (...) {
    close(lock_);
    throw;
  }
  for (const char* name : file_names) io::remove_leftovers(folder / name);
}

RunFolder::~RunFolder() { close(lock_); }

fs::path RunFolder::set_earlier_run_aside() const {
  const fs::path previous = folder_ / "previous";
  make(previous);
  for (const char* name : file_names) {
    std::error_code error;
    fs::remove(previous / name, error);
    if (!error && fs::exists(folder_ / name)) fs::rename(folder_ / name, previous / name, error);
    if (error) fail(folder_ / name, "cannot be moved to " + previous.string(), error.value());
  }
  return previous;
}

}  // namespace tapehead::program
