// What a kernel sees of a tensor: an address, a type, sizes and strides. No ownership, no tape.
//
// Also the one way to walk several strided operands together: merge the dims that can be merged,
// then visit runs along the innermost one, so that inner loops are plain and vectorise.
#pragma once

#include <tapehead/core/dtype.h>
#include <tapehead/core/parallel.h>
#include <tapehead/core/shape.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace tapehead {

/// The elements of a tensor as a kernel sees them.
struct View {
  void* data = nullptr;      ///< the first element: the tensor's offset is already added
  DType dtype = DType::f32;  ///< of the elements
  Shape shape;               ///< its sizes
  Strides strides;           ///< in elements

  /// The elements as what they are. DTypeError when T holds those of another dtype; raw types such
  /// as std::byte look at any.
  template <class T>
  T* as() const {
    using Element = std::remove_cv_t<T>;
    if constexpr (requires { DTypeOf<Element>::value; })
      if (dtype != dtype_of<Element>) detail::reject_element_type(dtype, dtype_of<Element>);
    return static_cast<T*>(data);
  }
  /// The element that stands `offset` elements from the first one.
  std::byte* address(std::int64_t offset) const {
    return static_cast<std::byte*>(data) + offset * static_cast<std::int64_t>(size_of(dtype));
  }
  /// All elements of a row-major view.
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data), static_cast<std::size_t>(numel(shape)) * size_of(dtype)};
  }
};

/// The loop over N operands of one shape after merging: `shape` has at least one dim; the last is
/// the run that `for_each_run` hands out.
template <std::size_t N>
struct StridedLoop {
  Shape shape;                     ///< the sizes of the loop
  std::array<Strides, N> strides;  ///< of each operand

  /// Elements from one to the next of an operand's run.
  std::int64_t inner_stride(std::size_t operand) const { return strides[operand].back(); }
};

/// Drops dims of size 1 and merges neighbours that every operand walks as one.
template <std::size_t N>
StridedLoop<N> merge_dims(const Shape& shape, const std::array<const Strides*, N>& strides) {
  StridedLoop<N> loop;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const int last = loop.shape.rank() - 1;
    bool merges = last >= 0;
    for (std::size_t k = 0; merges && k < N; ++k)
      merges = loop.strides[k][last] == (*strides[k])[i] * shape[i];
    if (merges) {
      loop.shape[last] *= shape[i];
      for (std::size_t k = 0; k < N; ++k) loop.strides[k][last] = (*strides[k])[i];
    } else {
      loop.shape.push_back(shape[i]);
      for (std::size_t k = 0; k < N; ++k) loop.strides[k].push_back((*strides[k])[i]);
    }
  }
  if (loop.shape.empty()) {
    loop.shape.push_back(1);
    for (std::size_t k = 0; k < N; ++k) loop.strides[k].push_back(0);
  }
  return loop;
}

/// Where each operand's element stands that is number `index` of the loop in row-major order.
template <std::size_t N>
std::array<std::int64_t, N> offsets_at(const StridedLoop<N>& loop, std::int64_t index) {
  std::array<std::int64_t, N> offsets{};
  for (int i = loop.shape.rank() - 1; i >= 0; --i) {
    const std::int64_t position = index % loop.shape[i];
    index /= loop.shape[i];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += position * loop.strides[k][i];
  }
  return offsets;
}

/// Calls f(offsets, count) for runs that cover elements [begin, end) of the loop in row-major
/// order: operand k's run starts at offsets[k] and steps by loop.inner_stride(k).
template <std::size_t N, class F>
void for_each_run(const StridedLoop<N>& loop, std::int64_t begin, std::int64_t end, F&& f) {
  if (begin >= end) return;
  const int inner = loop.shape.rank() - 1;
  const std::int64_t length = loop.shape[inner];
  std::array<std::int64_t, N> offsets{};
  Dims position(inner + 1, 0);
  std::int64_t rest = begin;
  for (int i = inner; i >= 0; --i) {
    position[i] = rest % loop.shape[i];
    rest /= loop.shape[i];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += position[i] * loop.strides[k][i];
  }
  for (std::int64_t done = begin; done < end;) {
    const std::int64_t count = std::min(length - position[inner], end - done);
    f(static_cast<const std::array<std::int64_t, N>&>(offsets), count);
    done += count;
    if (done == end) return;
    // The run went to the end of its row: step to the start of the next one.
    for (std::size_t k = 0; k < N; ++k) offsets[k] -= position[inner] * loop.strides[k][inner];
    position[inner] = 0;
    for (int i = inner - 1; i >= 0; --i) {
      for (std::size_t k = 0; k < N; ++k) offsets[k] += loop.strides[k][i];
      if (++position[i] < loop.shape[i]) break;
      for (std::size_t k = 0; k < N; ++k) offsets[k] -= loop.shape[i] * loop.strides[k][i];
      position[i] = 0;
    }
  }
}

/// for_each_run over the whole loop, on several threads when it has more than `grain` elements for
/// each.
template <std::size_t N, class F>
void parallel_runs(const StridedLoop<N>& loop, std::int64_t grain, F&& f) {
  parallel_for(numel(loop.shape), grain,
               [&](std::int64_t begin, std::int64_t end) { for_each_run(loop, begin, end, f); });
}

}  // namespace tapehead
