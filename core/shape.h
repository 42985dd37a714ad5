// Shapes and strides: short lists of 64-bit sizes, held inline so that making one never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tapehead {

/// A list of at most max_rank integers: the sizes of a tensor, its strides in elements, or a list
/// of dims. Plain value; more entries than max_rank are a ShapeError.
class Dims {
 public:
  static constexpr int max_rank = 16;  ///< the most entries

  Dims() = default;
  /// {2, 3, 4}.
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span(values.begin(), values.size())) {}
  /// A copy of the list.
  explicit Dims(std::span<const std::int64_t> values);
  /// `count` entries of `value`.
  Dims(std::int64_t count, std::int64_t value);
  /// Copies the entries in use.
  Dims(const Dims& other) { copy_from(other); }
  /// Copies the entries in use.
  Dims& operator=(const Dims& other) {
    copy_from(other);
    return *this;
  }

  /// The number of entries.
  int rank() const { return rank_; }
  /// Whether there are none: the shape of a 0-d tensor.
  bool empty() const { return rank_ == 0; }
  /// Entry i, from 0; not checked.
  std::int64_t operator[](std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }
  /// Entry i, to write to.
  std::int64_t& operator[](std::int64_t i) { return values_[static_cast<std::size_t>(i)]; }
  /// Entries in order.
  const std::int64_t* begin() const { return values_.data(); }
  /// Behind the last.
  const std::int64_t* end() const { return values_.data() + rank_; }
  /// Entries to write to.
  std::int64_t* begin() { return values_.data(); }
  /// Behind the last.
  std::int64_t* end() { return values_.data() + rank_; }
  /// The last entry, of at least one.
  std::int64_t back() const { return values_[static_cast<std::size_t>(rank_ - 1)]; }

  /// Adds an entry behind the others.
  void push_back(std::int64_t value);
  /// Adds an entry before position `position`.
  void insert(std::int64_t position, std::int64_t value);
  /// Takes the entry at `position` away.
  void erase(std::int64_t position);
  /// The entries.
  operator std::span<const std::int64_t>() const { return {begin(), end()}; }
  /// The same entries. Inline: every recorded operation compares shapes, and most have few dims.
  bool operator==(const Dims& other) const {
    if (rank_ != other.rank_) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rank_); ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

 private:
  // Copies only the entries in use: a rank-2 shape moves 16 bytes, not 128.
  void copy_from(const Dims& other) {
    rank_ = other.rank_;
    for (int i = 0; i < rank_; ++i)
      values_[static_cast<std::size_t>(i)] = other.values_[static_cast<std::size_t>(i)];
  }

  int rank_ = 0;
  std::array<std::int64_t, max_rank> values_;
};

/// The sizes of a tensor.
using Shape = Dims;
/// Distances in elements between neighbours along each dim.
using Strides = Dims;

/// "(2, 3)"; "()" for a 0-d shape.
std::string to_string(const Dims& dims);

/// The position of the `flat`-th element of `shape` in row-major order.
Dims unravel(std::size_t flat, const Shape& shape);

/// Number of elements: the product of the sizes; 1 for "()". The shape has been checked.
inline std::int64_t numel(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

/// Whether the sizes, zeros counted as one, times `element_size` bytes stay below 2^63.
bool bytes_fit(const Shape& shape, std::size_t element_size);

/// Throws unless `shape` can exist: no negative size (ValueError), and bytes_fit (ShapeError).
void check_shape(std::string_view operation, const Shape& shape, std::size_t element_size);

/// Strides of the row-major layout of `shape`. A dim of size 0 counts as 1, as everywhere.
Strides contiguous_strides(const Shape& shape);

/// Whether `strides` walk `shape` in row-major order without gaps. Dims of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);

/// Whether a dim repeats one element: it has stride 0 and more than one entry.
bool is_expanded(const Shape& shape, const Strides& strides);

/// Whether `shape` broadcasts to `to` under NumPy's rules.
bool broadcasts_to(const Shape& shape, const Shape& to);

/// The shape that a and b broadcast to under NumPy's rules; ShapeError naming `operation` and the
/// operands when they do not fit.
Shape broadcast_shapes(std::string_view operation, const Shape& a, const Shape& b,
                       std::string_view a_name = "a", std::string_view b_name = "b");

/// Strides that read a tensor of `shape` and `strides` as if it had been expanded to `to`
/// (stride 0 where a size is repeated). `shape` broadcasts to `to`.
Strides expanded_strides(const Shape& shape, const Strides& strides, const Shape& to);

/// A dim in [-rank, rank) of operand `name` made non-negative; a 0-d tensor takes 0 and -1.
/// IndexError otherwise.
std::int64_t normalize_dim(std::string_view operation, std::int64_t dim, const Shape& shape,
                           std::string_view name = "x");

/// Dims made non-negative, in the order given; ValueError when one occurs twice. An empty list
/// means all dims.
Dims normalize_dims(std::string_view operation, const Dims& dims, const Shape& shape,
                    std::string_view name = "x");

/// The place of a dim added to `shape`, in [-rank - 1, rank], made non-negative. IndexError
/// otherwise; ShapeError when the result would have more than Dims::max_rank dims.
std::int64_t normalize_new_dim(std::string_view operation, std::int64_t dim, const Shape& shape,
                               std::string_view name = "x");

/// ShapeError when a result of `rank` dims, made from operand `name`, has more than Dims::max_rank.
void check_rank(std::string_view operation, std::int64_t rank, const Shape& shape,
                std::string_view name = "x");

}  // namespace tapehead
