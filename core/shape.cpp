#include <tapehead/core/error.h>
#include <tapehead/core/shape.h>

#include <algorithm>
#include <limits>

namespace tapehead {

namespace {

[[noreturn]] void too_many_dims() {
  throw ShapeError("shape", "a tensor has at most " + std::to_string(Dims::max_rank) + " dims");
}

std::string operand(std::string_view name, const Shape& shape) {
  return std::string(name) + " " + to_string(shape);
}

// A dim that counts `places`, from either end.
std::int64_t within(std::string_view operation, std::int64_t dim, std::int64_t places,
                    const Shape& shape, std::string_view name) {
  if (dim < -places || dim >= places)
    throw IndexError(operation, "dim " + std::to_string(dim) + " of " + operand(name, shape) +
                                    " is outside [" + std::to_string(-places) + ", " +
                                    std::to_string(places) + ")");
  return dim < 0 ? dim + places : dim;
}

}  // namespace

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > max_rank) too_many_dims();
  rank_ = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), begin());
}

Dims::Dims(std::int64_t count, std::int64_t value) {
  if (count > max_rank) too_many_dims();
  rank_ = static_cast<int>(count);
  std::fill(begin(), end(), value);
}

void Dims::push_back(std::int64_t value) { insert(rank_, value); }

void Dims::insert(std::int64_t position, std::int64_t value) {
  if (rank_ == max_rank) too_many_dims();
  ++rank_;
  std::copy_backward(begin() + position, end() - 1, end());
  (*this)[position] = value;
}

void Dims::erase(std::int64_t position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  --rank_;
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (const std::int64_t value : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + ")";
}

Dims unravel(std::size_t flat, const Shape& shape) {
  Dims index(shape.rank(), 0);
  auto rest = static_cast<std::int64_t>(flat);
  for (int i = shape.rank(); i-- > 0;) {
    index[i] = rest % shape[i];
    rest /= shape[i];
  }
  return index;
}

bool bytes_fit(const Shape& shape, std::size_t element_size) {
  // Zero sizes are counted as one: a shape whose other sizes overflow would break stride
  // arithmetic even though it holds nothing.
  std::int64_t bytes = static_cast<std::int64_t>(element_size);
  for (const std::int64_t size : shape) {
    const std::int64_t factor = std::max<std::int64_t>(size, 1);
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor) return false;
    bytes *= factor;
  }
  return true;
}

void check_shape(std::string_view operation, const Shape& shape, std::size_t element_size) {
  for (const std::int64_t size : shape)
    if (size < 0) throw ValueError(operation, "shape " + to_string(shape) + ": a size is negative");
  if (!bytes_fit(shape, element_size))
    throw ShapeError(operation,
                     "shape " + to_string(shape) + ": its size in bytes does not fit in 63 bits");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<std::int64_t>(shape[i + 1], 1);
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool is_expanded(const Shape& shape, const Strides& strides) {
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape[dim] > 1 && strides[dim] == 0) return true;
  return false;
}

bool broadcasts_to(const Shape& shape, const Shape& to) {
  const int added = to.rank() - shape.rank();
  if (added < 0) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1 && shape[i] != to[i + added]) return false;
  return true;
}

Shape broadcast_shapes(std::string_view operation, const Shape& a, const Shape& b,
                       std::string_view a_name, std::string_view b_name) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const std::int64_t sa = ia < 0 ? 1 : a[ia], sb = ib < 0 ? 1 : b[ib];
    if (sa != sb && sa != 1 && sb != 1)
      throw ShapeError(operation, operand(a_name, a) + " and " + operand(b_name, b) +
                                      " do not broadcast: sizes " + std::to_string(sa) + " and " +
                                      std::to_string(sb) + " meet at dim " +
                                      std::to_string(i - rank));
    result[i] = sa == 1 ? sb : sa;
  }
  return result;
}

Strides expanded_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides result(to.rank(), 0);
  const int added = to.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); ++i)
    result[i + added] = shape[i] == 1 && to[i + added] != 1 ? 0 : strides[i];
  return result;
}

std::int64_t normalize_dim(std::string_view operation, std::int64_t dim, const Shape& shape,
                           std::string_view name) {
  return within(operation, dim, std::max(shape.rank(), 1), shape, name);
}

Dims normalize_dims(std::string_view operation, const Dims& dims, const Shape& shape,
                    std::string_view name) {
  Dims result;
  if (dims.empty()) {
    for (int i = 0; i < shape.rank(); ++i) result.push_back(i);
    return result;
  }
  for (const std::int64_t dim : dims) {
    const std::int64_t normal = normalize_dim(operation, dim, shape, name);
    if (std::find(result.begin(), result.end(), normal) != result.end())
      throw ValueError(operation, "dims " + to_string(dims) + " of " + operand(name, shape) +
                                      ": dim " + std::to_string(normal) + " is given twice");
    result.push_back(normal);
  }
  return result;
}

std::int64_t normalize_new_dim(std::string_view operation, std::int64_t dim, const Shape& shape,
                               std::string_view name) {
  check_rank(operation, shape.rank() + 1, shape, name);
  return within(operation, dim, shape.rank() + 1, shape, name);
}

void check_rank(std::string_view operation, std::int64_t rank, const Shape& shape,
                std::string_view name) {
  if (rank > Dims::max_rank)
    throw ShapeError(operation, "the result made of " + operand(name, shape) + " would have " +
                                    std::to_string(rank) + " dims; a tensor has at most " +
                                    std::to_string(Dims::max_rank));
}

}  // namespace tapehead
