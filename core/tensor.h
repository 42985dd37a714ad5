// Tensor: a light handle to a strided window on a storage.
//
// Copying a Tensor copies the handle; views share the storage. Values never change under a handle
// but by the named writers (fill_, copy_, optimizers), each of which bumps the storage's version.
// A handle may be read on many threads at once; one thread writes while nobody reads.
//
// What a tensor is to the tapes is one of four:
//   constant   it was made from data, or under Tape::Pause, or by detach(): no gradient flows
//   leaf       parameter(t): a gradient can be asked for; operations never write to it
//   recorded   an operation put it on an open tape: two integers (tape serial, value index)
//   untracked  it was computed from a leaf while no tape was open; using it under a tape is a
//              StateError, for its gradient would be lost without a word
#pragma once

#include <tapehead/core/dtype.h>
#include <tapehead/core/error.h>
#include <tapehead/core/shape.h>
#include <tapehead/core/storage.h>
#include <tapehead/core/view.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead {

/// Where on a tape a recorded tensor stands. Serial 0: on none.
struct Stamp {
  std::uint64_t tape = 0;
  std::uint32_t value = 0;
};

namespace detail {

enum class Tracking : std::uint8_t { constant, leaf, recorded, untracked };

struct TensorImpl final : RefCounted, Pooled {
  StoragePtr storage;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // in elements
  Stamp stamp;
  DType dtype = DType::f32;
  Tracking tracking = Tracking::constant;
  std::shared_ptr<const std::string> name;
};

}  // namespace detail

/// A handle to a strided window on a storage.
class Tensor {
 public:
  /// Undefined: holds nothing. Asking it for anything but defined() is a ValueError.
  Tensor() = default;
  /// For the library: a handle to what exists already.
  explicit Tensor(detail::TensorImpl* impl) : impl_(impl) {}

  /// Whether it holds anything.
  bool defined() const { return static_cast<bool>(impl_); }
  /// The sizes.
  const Shape& shape() const { return get().shape; }
  /// From one element to its neighbour along each dim, in elements.
  const Strides& strides() const { return get().strides; }
  /// Size of one dim, which may be negative (from the end). IndexError.
  std::int64_t size(std::int64_t dim) const;
  /// The number of dims.
  int rank() const { return get().shape.rank(); }
  /// The number of elements.
  std::int64_t numel() const { return tapehead::numel(get().shape); }
  /// Bytes of the elements: numel() times the size of one, repeated (expanded) ones included.
  std::int64_t nbytes() const { return numel() * static_cast<std::int64_t>(size_of(dtype())); }
  /// The type of the elements.
  DType dtype() const { return get().dtype; }
  /// Where it starts in its storage, in elements.
  std::int64_t offset() const { return get().offset; }
  /// Where the elements lie, perhaps with those of others.
  const StoragePtr& storage() const { return get().storage; }
  /// Whether the elements lie in row-major order without gaps.
  bool is_contiguous() const { return tapehead::is_contiguous(shape(), strides()); }

  /// Whether parameter() made it.
  bool is_leaf() const { return get().tracking == detail::Tracking::leaf; }
  /// Leaf, or computed from one: a gradient flows through it or would have.
  bool requires_grad() const { return get().tracking != detail::Tracking::constant; }

  /// The same values as a constant: shares the storage, cuts the tape. Free.
  Tensor detach() const;

  /// The only element, converted to T. ShapeError unless numel() == 1; StateError in a dry run.
  template <class T = double>
  T item() const;
  /// All elements in logical row-major order, converted to T. StateError in a dry run.
  template <class T = double>
  std::vector<T> to_vector() const;

  /// What a kernel that computes sees. StateError for a tensor made in a dry run: it has no bytes.
  /// DTypeError for bf16 and f16, which only store: here no operation can pass with them.
  View view() const;
  /// The same in any dtype, for code that only moves or converts values.
  View any_view() const;

  /// The name shown in graphs and errors; empty when none was given. Parameters get theirs from
  /// their module. Set before the tensor is shared with other threads.
  std::string_view name() const;
  /// See name().
  void set_name(std::string name);

  /// For the library: what the handle holds.
  detail::TensorImpl* impl() const { return impl_.get(); }
  /// Whether both are handles to the same tensor (not merely equal values).
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  const detail::TensorImpl& get() const {
    if (!impl_) reject_undefined();
    return *impl_;
  }
  [[noreturn, gnu::cold]] static void reject_undefined();

  IntrusivePtr<detail::TensorImpl> impl_;
};

/// "f32 (2, 3)": dtype and shape, as errors quote operands.
std::string describe(const Tensor& tensor);

/// An uninitialised row-major tensor. `operation` is a string that lives as long as the process; it
/// names who asked in errors. ValueError or ShapeError for an impossible shape, OutOfMemoryError.
Tensor empty(const char* operation, const Shape& shape, DType dtype,
             Category category = Category::transient);

/// Makes a leaf of a floating constant: takes the tensor over as the parameter's own (sole owner of
/// its storage, else StateError: somebody else could write to it or keep it alive unseen). A
/// non-contiguous tensor is taken as it is. DTypeError unless floating (bf16 and f16 too).
Tensor parameter(Tensor values);

/// A leaf that shares x's values and stands for x on a nested tape, for operations that run others
/// on a tape of their own. Unlike parameter() it takes nothing over.
Tensor stand_in(const Tensor& x);

/// A row-major tensor of the elements in `values` (row-major order). ShapeError unless their number
/// is that of `shape`.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape, DType dtype = dtype_of<T>);

/// A handle that shares `x`'s storage with other sizes, strides and offset (in elements, absolute).
/// The result is a constant until an operation records it. For view operations; nothing is checked.
Tensor alias(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset);

/// A result buffer for an operation that can work in place: x's own buffer as a new constant tensor
/// when `x` is its only owner (no other handle, not saved by a tape, no leaf), is contiguous, has
/// this dtype and element count, and exists on the same side of the dry run; else undefined.
/// Call it on a by-value argument that the caller moved in.
Tensor donate(const Tensor& x, const Shape& shape, DType dtype);

/// donate, or a fresh buffer of that shape and dtype.
Tensor donate_or_empty(const char* operation, const Tensor& x, const Shape& shape, DType dtype);

/// Throws ValueError when x is undefined, as the checks below do. `operand` is its name in the
/// text.
void check_defined(std::string_view operation, std::string_view operand, const Tensor& x);
/// Throws DTypeError unless operations compute in the dtype: bf16 and f16 only store, and the text
/// names the cast. In a dry run they pass, for what they would cost can be planned.
void check_computes(std::string_view operation, std::string_view what, DType dtype);
/// The same for an operand.
void check_computes(std::string_view operation, std::string_view operand, const Tensor& x);
/// Throws DTypeError unless the tensor is floating and operations compute in its dtype.
void check_floating(std::string_view operation, std::string_view operand, const Tensor& x);
/// Throws DTypeError unless the tensor has this dtype.
void check_dtype(std::string_view operation, std::string_view operand, const Tensor& x,
                 DType wanted);
/// Throws DTypeError unless both have one dtype.
void check_same_dtype(std::string_view operation, const Tensor& a, const Tensor& b,
                      std::string_view a_name = "a", std::string_view b_name = "b");

}  // namespace tapehead
