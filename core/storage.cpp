#include <tapehead/core/dry_run.h>
#include <tapehead/core/error.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/storage.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace tapehead {
namespace {

std::atomic<std::uint64_t> next_id{1};

// Memory for tensors without elements: a valid address that nobody reads or writes.
alignas(64) std::array<std::byte, 64> no_elements;

// Storages large enough to be worth naming when memory runs out. Small ones are not listed: they
// come and go with every operation, and a lock each would cost more than they explain.
constexpr std::size_t listed_from = std::size_t{64} << 10;
constexpr std::size_t listed_at_most = 8;

struct LargeStorages {
  std::mutex mutex;
  std::unordered_set<const Storage*> all;
};

// Never destroyed: tensors in static objects may be freed after it would have been.
LargeStorages& large_storages() {
  static LargeStorages& storages = *new LargeStorages;
  return storages;
}

void list_large(const Storage* storage) {
  LargeStorages& large = large_storages();
  const std::lock_guard lock(large.mutex);
  large.all.insert(storage);
}

void unlist_large(const Storage* storage) {
  LargeStorages& large = large_storages();
  const std::lock_guard lock(large.mutex);
  large.all.erase(storage);
}

void plan(MemoryAccount& account, const char* operation, const Shape& shape, std::int64_t bytes) {
  if (bytes > std::numeric_limits<std::int64_t>::max() - account.live())
    throw OutOfMemoryError(operation, "shape " + to_string(shape) + ": its " +
                                          std::to_string(bytes) + " bytes and the " +
                                          std::to_string(account.live()) +
                                          " that are live do not fit in 63 bits");
  account.add(bytes);
}

}  // namespace

std::string_view to_string(Category category) {
  switch (category) {
    case Category::transient: return "transient";
    case Category::parameter: return "parameter";
    case Category::input: return "input";
    case Category::saved: return "saved";
    case Category::gradient: return "gradient";
    case Category::optimizer_state: return "optimizer_state";
    case Category::constant: return "constant";
  }
  return "unknown";
}

Storage::Storage(const char* operation, const Shape& shape, DType dtype, Category category)
    : id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      bytes_(static_cast<std::size_t>(numel(shape)) * size_of(dtype)),
      operation_(operation),
      category_(category) {
  detail::count_allocation(operation);
  if (DryRun::active()) {
    dry_account_ = DryRun::shared_account();
    plan(*dry_account_, operation, shape, static_cast<std::int64_t>(bytes_));
  } else if (bytes_ == 0) {
    block_ = {no_elements.data(), 0};
  } else {
    allocate(shape);
  }
  if (Ledger::watching()) Ledger::born(*this);
}

void Storage::allocate(const Shape& shape) {
  block_ = detail::allocate_block(operation_, shape, bytes_);
  try {
    if (bytes_ >= listed_from) list_large(this);
  } catch (...) {
    detail::free_block(block_);
    throw;
  }
  detail::process_account().add(static_cast<std::int64_t>(bytes_));
}

void Storage::set_category(Category category) {
  category_.store(category, std::memory_order_relaxed);
  if (Ledger::watching()) Ledger::recategorised(*this);
}

Storage::~Storage() {
  if (Ledger::watching()) Ledger::dying(*this);
  const auto bytes = static_cast<std::int64_t>(bytes_);
  if (dry_account_) {
    dry_account_->remove(bytes);
    return;
  }
  detail::process_account().remove(bytes);
  if (bytes_ >= listed_from) unlist_large(this);
  if (bytes_ != 0) detail::free_block(block_);
}

std::string describe_largest_storages() {
  LargeStorages& large = large_storages();
  const std::lock_guard lock(large.mutex);
  std::vector<const Storage*> largest(large.all.begin(), large.all.end());
  std::sort(largest.begin(), largest.end(), [](const Storage* a, const Storage* b) {
    return a->bytes() != b->bytes() ? a->bytes() > b->bytes() : a->id() < b->id();
  });
  if (largest.size() > listed_at_most) largest.resize(listed_at_most);
  std::string text;
  for (const Storage* storage : largest) {
    text += text.empty() ? ". Largest live storages: " : ", ";
    text += std::to_string(storage->bytes()) + " bytes (" +
            std::string(to_string(storage->category())) + ", made by " + storage->operation() + ")";
  }
  return text;
}

}  // namespace tapehead
