#include <tapehead/core/arithmetic.h>
#include <tapehead/core/saved_hooks.h>
#include <tapehead/core/tape.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace tapehead {
namespace {

std::atomic<std::uint64_t> next_hooks_id{1};

// The dims of x that have steps in memory, outermost first.
Dims dims_in_memory_order(const Tensor& x) {
  Dims dims;
  for (int i = 0; i < x.rank(); ++i)
    if (x.strides()[i] != 0 || x.shape()[i] <= 1) dims.push_back(i);
  std::stable_sort(dims.begin(), dims.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(x.strides()[a]) > std::abs(x.strides()[b]);
  });
  return dims;
}

// x without repetition, its dims in the order `dims`.
Tensor as_it_lies(const Tensor& x, const Dims& dims) {
  Shape shape;
  Strides strides;
  for (const std::int64_t dim : dims) {
    shape.push_back(x.shape()[dim]);
    strides.push_back(x.strides()[dim]);
  }
  return alias(x, shape, strides, x.offset());
}

// While it lives, hooks are at work on this thread: nothing is recorded on the tape that they work
// for, and what they record on tapes of their own is not packed.
struct AtWork : ThreadScope<AtWork> {
  static bool active() { return innermost() != nullptr; }
  const Tape::Pause pause;
};

}  // namespace

SavedTensorHooks::SavedTensorHooks() : id_(next_hooks_id.fetch_add(1, std::memory_order_relaxed)) {}
SavedTensorHooks* SavedTensorHooks::current() { return AtWork::active() ? nullptr : innermost(); }

std::unique_ptr<PackedSlot> PackingTable::pack(SavedTensorHooks& hooks, const SavedInfo& info,
                                               const Tensor& x) {
  const AtWork at_work;
  const Dims order = dims_in_memory_order(x);
  const Tensor seen = as_it_lies(x, order);
  const StridedLoop<1> merged = merge_dims<1>(seen.shape(), {&seen.strides()});
  const std::uint64_t storage = x.storage()->id(), version = x.storage()->version();
  const Entry entry{hooks.id_, storage,      version,          x.offset(),
                    x.dtype(), merged.shape, merged.strides[0]};

  auto slot = std::make_unique<PackedSlot>();
  const auto [begin, end] = by_storage_.equal_range(storage);
  const auto found =
      std::find_if(begin, end, [&](const auto& other) { return other.second.entry == entry; });
  if (found != end) {
    slot->object = found->second.object.lock();
    slot->row = found->second.row;
    slot->shown = found->second.shown;
  }
  if (!slot->object) {
    slot->object = hooks.pack(info, seen);
    if (!slot->object) return nullptr;
    slot->row = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back({slot->object->how(), slot->object->bytes()});
    slot->shown = seen.shape();
    const Packed packed{entry, slot->object, slot->row, slot->shown};
    if (found != end) found->second = packed;  // what it had was let go
    else by_storage_.emplace(storage, packed);
  }
  slot->shape = x.shape();
  slot->dtype = x.dtype();
  slot->storage = storage;
  slot->version = version;
  slot->strides = Strides(x.rank(), 0);
  const Strides row_major = contiguous_strides(seen.shape());
  for (int i = 0; i < order.rank(); ++i) slot->strides[order[i]] = row_major[i];
  return slot;
}

Tensor PackedSlot::unpack(const char* operation, const char* name) const {
  const AtWork at_work;
  Tensor values = object->unpack();
  const auto fail = [&](const std::string& what) {
    throw StateError(operation, "saved tensor \"" + std::string(name) + "\", packed as " +
                                    object->how() + ", " + what);
  };
  if (!values.defined() || values.dtype() != dtype || values.shape() != shown)
    fail("was unpacked as " + describe(values) + " in place of " + std::string(to_string(dtype)) +
         " " + to_string(shown));
  if (values.storage()->id() == storage && values.storage()->version() != version)
    fail("was written to after it was saved: it was version " + std::to_string(version) +
         " and is version " + std::to_string(values.storage()->version()));
  if (!values.is_contiguous()) values = copied("unpack", values);
  return alias(values, shape, strides, values.offset());
}

}  // namespace tapehead
