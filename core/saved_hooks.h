// Saved-tensor hooks: something else in the place of what the backward pass would keep.
//
// While a hook object lives on a thread, each tensor that an operation is about to save is shown to
// it. It may keep something of its own (fewer bits, a file) that gives the tensor back when the
// rule reads it, or decline. What was packed stays packed after the hook object is gone.
//
//     struct KeepNowhere : PackedTensor { ... };
//     struct MyHooks final : SavedTensorHooks {
//       std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) override {
//         if (info.category == Category::parameter) return nullptr;  // somebody else keeps it
//         return std::make_unique<KeepNowhere>(x);
//       }
//     };
//
// Only the innermost hook object is asked. Hooks and what they keep belong to the tape's thread.
// Second derivatives work: a tensor that was unpacked has the place on the tape of the one saved.
#pragma once

#include <tapehead/core/storage.h>
#include <tapehead/core/tensor.h>
#include <tapehead/core/thread_scope.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tapehead {

/// What keeps a saved tensor. Destroyed when the tape lets the saved tensor go.
class PackedTensor {
 public:
  virtual ~PackedTensor() = default;
  /// The tensor: the shape and dtype that pack() was shown, in any layout. Called, with recording
  /// paused, when a rule reads it, more than once if the record is kept. Errors pass through the
  /// gradient call.
  virtual Tensor unpack() = 0;
  /// Bytes of memory that this keeps, for the graph.
  virtual std::int64_t bytes() const = 0;
  /// How it is kept, in a word or two for the graph: "bf16".
  virtual std::string how() const = 0;
};

/// Where a saved tensor comes from.
struct SavedInfo {
  const char* operation;      ///< which keeps it
  const char* slot;           ///< its name there
  const char* reason;         ///< the formula that reads it
  const std::string& module;  ///< dotted path
  bool exact;                 ///< Saved::Exact: not to be rounded
  Category category;  ///< of its storage: parameter also for views of parameters, which live anyway
};

/// While it lives, pack() is asked for each tensor saved on this thread, but for what is saved
/// while pack() or unpack() runs: they may open tapes of their own.
class SavedTensorHooks : public ThreadScope<SavedTensorHooks> {
 public:
  SavedTensorHooks();
  virtual ~SavedTensorHooks() = default;

  /// What to keep in the place of x; null to keep x. Recording is paused. Slots that show the same
  /// elements of one storage share what the first of them was given, so it is packed once.
  ///
  /// x is a constant that shares the saved tensor's storage, its dims in the order in which they
  /// lie in memory and repeated ones (stride 0) left out: what is saved unexpanded is packed
  /// unexpanded, and a transposed matrix as the matrix. The view is laid over what unpack()
  /// returns. Once packed, the values are those at the time of saving: writing to the original
  /// later is harmless, unless what was packed shares its storage; then it is a StateError as ever.
  /// Errors pass through the operation, which leaves no trace on the tape.
  virtual std::unique_ptr<PackedTensor> pack(const SavedInfo& info, const Tensor& x) = 0;

  /// Those to ask on this thread: the innermost; null when there are none, or when some are packing
  /// or unpacking.
  static SavedTensorHooks* current();

 private:
  friend class PackingTable;

  const std::uint64_t id_;
};

/// What one slot has in place of its tensor; for Saved.
struct PackedSlot {
  std::shared_ptr<PackedTensor> object;  // null when it was let go
  std::uint32_t row = 0;                 // in the table
  Shape shown;                           // what pack() saw
  Shape shape;                           // what was saved
  Strides strides;                       // over row-major values
  DType dtype = DType::f32;
  std::uint64_t storage = 0, version = 0;  // of the original

  /// The tensor laid over what the object gives back. StateError, naming operation and slot, when
  /// that has another shape or dtype, or shares a storage that was written to.
  Tensor unpack(const char* operation, const char* slot) const;
};

/// What the hooks packed on one tape; for Tape.
class PackingTable {
 public:
  struct Row {
    std::string how;
    std::int64_t bytes = 0;
  };

  /// Null when the hooks decline.
  std::unique_ptr<PackedSlot> pack(SavedTensorHooks& hooks, const SavedInfo& info, const Tensor& x);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  // Elements of a storage that were packed.
  struct Entry {
    std::uint64_t hooks, storage, version;
    std::int64_t offset;
    DType dtype;
    Shape shape;  // dims that are walked as one merged, so that reshaped tensors meet
    Strides strides;
    bool operator==(const Entry&) const = default;
  };
  struct Packed {
    Entry entry;
    std::weak_ptr<PackedTensor> object;
    std::uint32_t row;
    Shape shown;
  };

  std::vector<Row> rows_;
  std::unordered_multimap<std::uint64_t, Packed> by_storage_;
};

}  // namespace tapehead
