// POSIX calls, because a C++ stream cannot have a file without a name.
#include <tapehead/core/arithmetic.h>
#include <tapehead/core/dry_run.h>
#include <tapehead/nn/saved_hooks.h>
#include <tapehead/ops/create.h>

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <system_error>

namespace tapehead::nn {
namespace {

bool is_activation(const SavedInfo& info, const Tensor& x) {
  const bool made_here = info.category == Category::transient || info.category == Category::saved;
  return made_here && (x.dtype() == DType::f32 || x.dtype() == DType::f64);
}

class InBf16 final : public PackedTensor {
 public:
  explicit InBf16(const Tensor& x) : dtype_(x.dtype()), rounded_(to(x, DType::bf16)) {
    rounded_.storage()->set_category(Category::saved);
  }
  Tensor unpack() override { return to(rounded_, dtype_); }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(rounded_.storage()->bytes());
  }
  std::string how() const override { return "bf16"; }

 private:
  DType dtype_;
  Tensor rounded_;
};

}  // namespace

std::unique_ptr<PackedTensor> KeepInBf16::pack(const SavedInfo& info, const Tensor& x) {
  if (info.exact || !is_activation(info, x)) return nullptr;
  return std::make_unique<InBf16>(x);
}

// ---- on disk -----------------------------------------------------------------------------------

// Tensors one after another. Offsets only grow: what was given back is a hole.
class KeepOnDisk::File {
 public:
  explicit File(const std::filesystem::path& folder) : folder_(folder.string()) {
    std::string name = (folder / "tapehead-saved-XXXXXX").string();
    descriptor_ = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail("no file can be made in it");
    unlink(name.c_str());
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::int64_t append(std::span<const std::byte> bytes) {
    const std::int64_t begin = end_;
    std::int64_t at = begin;
    while (!bytes.empty()) {
      const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        const int code = errno;
        give_back(begin, at - begin);
        errno = code;
        fail("a saved tensor cannot be written to a file in it");
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += count;
    }
    end_ = at;
    return begin;
  }

  void read(std::int64_t at, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), at);
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) errno = EIO;  // the file is shorter than what was written
      if (count <= 0) fail("a saved tensor cannot be read from a file in it");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += count;
    }
  }

  void give_back(std::int64_t begin, std::int64_t count) noexcept {
#ifdef FALLOC_FL_PUNCH_HOLE
    if (count > 0)
      static_cast<void>(
          fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, count));
#endif
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int code = errno;
    throw IoError("KeepOnDisk",
                  folder_ + ": " + what + ": " + std::generic_category().message(code));
  }

  std::string folder_;
  int descriptor_ = -1;
  std::int64_t end_ = 0;
};

class KeepOnDisk::OnDisk final : public PackedTensor {
 public:
  OnDisk(std::shared_ptr<File> file, const Tensor& x)
      : file_(std::move(file)), shape_(x.shape()), dtype_(x.dtype()), bytes_(x.nbytes()) {
    const Tensor row_major = x.is_contiguous() ? x : copied("KeepOnDisk", x);
    launch([&] {
      begin_ = file_->append(row_major.any_view().bytes());
      written_ = true;
    });
  }
  ~OnDisk() override {
    if (written_) file_->give_back(begin_, bytes_);
  }
  Tensor unpack() override {
    Tensor x = empty("KeepOnDisk", shape_, dtype_);
    launch([&] { file_->read(begin_, x.any_view().bytes()); });
    return x;
  }
  std::int64_t bytes() const override { return 0; }
  std::string how() const override { return "on disk"; }

 private:
  std::shared_ptr<File> file_;
  Shape shape_;
  DType dtype_;
  std::int64_t bytes_;
  std::int64_t begin_ = 0;
  bool written_ = false;
};

KeepOnDisk::KeepOnDisk(const std::filesystem::path& folder)
    : file_(std::make_shared<File>(folder)) {}
KeepOnDisk::~KeepOnDisk() = default;

std::unique_ptr<PackedTensor> KeepOnDisk::pack(const SavedInfo& info, const Tensor& x) {
  if (!is_activation(info, x)) return nullptr;
  return std::make_unique<OnDisk>(file_, x);
}

}  // namespace tapehead::nn
