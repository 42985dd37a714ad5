// Storage: the bytes behind one or more tensors, with what the books need to know of them.
//
// Ids only grow and are never used twice in a process. Every write to values that already existed
// bumps the version, which is how a stale saved tensor is found. Handles may be copied and dropped
// on any thread; writing while another thread reads is the caller's race.
#pragma once

#include <tapehead/core/dtype.h>
#include <tapehead/core/intrusive.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/pool.h>
#include <tapehead/core/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tapehead {

/// What a storage is for. Results start as transient and become saved or gradient when the tape
/// keeps them for that.
enum class Category : std::uint8_t {
  transient,
  parameter,
  input,
  saved,
  gradient,
  optimizer_state,
  constant,
};

/// "transient", "parameter", "input", "saved", "gradient", "optimizer_state" or "constant".
std::string_view to_string(Category category);

/// Whether such a storage lives whatever a tape keeps: a parameter or an input.
constexpr bool exists_anyway(Category category) {
  return category == Category::parameter || category == Category::input;
}

/// The memory of one or more tensors.
class Storage final : public RefCounted, public Pooled {
 public:
  /// Uninitialised memory for a tensor of that shape (none in a dry run). `operation` is a string
  /// that lives as long as the process; it names the maker in OutOfMemoryError, here and in later
  /// lists.
  Storage(const char* operation, const Shape& shape, DType dtype, Category category);
  ~Storage();

  /// Its number in this process.
  std::uint64_t id() const { return id_; }
  /// Bytes asked for.
  std::size_t bytes() const { return bytes_; }
  /// Bytes that it occupies.
  std::size_t reserved_bytes() const { return block_.reserved; }
  /// What asked for it.
  const char* operation() const { return operation_; }
  /// Whether it was made in a dry run.
  bool is_dry() const { return dry_account_ != nullptr; }

  /// Null in a dry run.
  std::byte* data() const { return static_cast<std::byte*>(block_.data); }

  /// How often it was written to.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// For whoever wrote to it.
  void bump_version() { version_.fetch_add(1, std::memory_order_acq_rel); }

  /// What it is for.
  Category category() const { return category_.load(std::memory_order_relaxed); }
  /// What it is for from now on.
  void set_category(Category category);

 private:
  void allocate(const Shape& shape);

  const std::uint64_t id_;
  const std::size_t bytes_;
  const char* const operation_;
  std::atomic<std::uint64_t> version_{0};
  std::atomic<Category> category_;
  detail::Block block_;
  std::shared_ptr<MemoryAccount> dry_account_;
};

/// A handle: the storage lives as long as one does.
using StoragePtr = IntrusivePtr<Storage>;

/// " Largest live storages: ..." for error texts; empty when none is large.
std::string describe_largest_storages();

}  // namespace tapehead
