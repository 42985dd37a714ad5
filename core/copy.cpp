#include <tapehead/core/copy.h>

#include <algorithm>
#include <type_traits>

namespace tapehead {
namespace {

constexpr std::int64_t tile = 32;  // a square of doubles is 8 KB: it stays in the nearest cache

template <class To, class From>
void copy_run(To* to, std::int64_t to_step, const From* from, std::int64_t from_step,
              std::int64_t count) {
  if (to_step == 1 && from_step == 0) {
    std::fill_n(to, count, convert<To>(*from));
  } else if (to_step == 1 && from_step == 1) {
    if constexpr (std::is_same_v<To, From>) std::copy_n(from, count, to);
    else std::transform(from, from + count, to, [](From value) { return convert<To>(value); });
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = convert<To>(from[i * from_step]);
  }
}

using CopyRun = void (*)(void* to, std::int64_t to_step, const void* from, std::int64_t from_step,
                         std::int64_t count);

// The inner loop for a pair of dtypes. It is all that differs between the pairs.
CopyRun copy_run_for(DType to_dtype, DType from_dtype) {
  return visit_any(to_dtype, [&](auto to_zero) {
    return visit_any(from_dtype, [&](auto from_zero) -> CopyRun {
      return [](void* to, std::int64_t to_step, const void* from, std::int64_t from_step,
                std::int64_t count) {
        copy_run(static_cast<decltype(to_zero)*>(to), to_step,
                 static_cast<const decltype(from_zero)*>(from), from_step, count);
      };
    });
  });
}

// `to` is contiguous along its columns, `from` along its rows.
template <class T>
void transpose_tile(T* to, std::int64_t to_step, const T* from, std::int64_t from_step,
                    std::int64_t rows, std::int64_t columns) {
  T square[tile][tile];
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) square[j][i] = from[j * from_step + i];
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[i * to_step + j] = square[j][i];
}

// The dim along which `from` is contiguous when that is not the innermost one, so that element by
// element every read would touch another cache line; -1 when there is no such dim.
int transposed_dim(const StridedLoop<2>& loop) {
  const int inner = loop.shape.rank() - 1;
  if (loop.inner_stride(0) != 1 || loop.inner_stride(1) == 1 || loop.shape[inner] < tile / 4)
    return -1;
  for (int i = 0; i < inner; ++i)
    if (loop.strides[1][i] == 1 && loop.shape[i] >= tile / 4) return i;
  return -1;
}

// Copies tile by tile: a tile reads whole cache lines on one side and writes them on the other.
template <class T>
void copy_transposed(const StridedLoop<2>& loop, int row_dim, T* to, const T* from) {
  const int inner = loop.shape.rank() - 1;
  const std::int64_t rows = loop.shape[row_dim], columns = loop.shape[inner];
  const std::int64_t row_tiles = (rows + tile - 1) / tile;
  const std::int64_t column_tiles = (columns + tile - 1) / tile;
  const std::int64_t matrices = numel(loop.shape) / (rows * columns);
  const std::int64_t to_step = loop.strides[0][row_dim], from_step = loop.inner_stride(1);
  const auto copy_tile = [&](std::int64_t index) {
    const std::int64_t column = index % column_tiles * tile;
    const std::int64_t row = index / column_tiles % row_tiles * tile;
    std::int64_t to_offset = row * to_step + column, from_offset = row + column * from_step;
    std::int64_t matrix = index / (column_tiles * row_tiles);
    for (int i = inner - 1; i >= 0; --i) {
      if (i == row_dim) continue;
      to_offset += matrix % loop.shape[i] * loop.strides[0][i];
      from_offset += matrix % loop.shape[i] * loop.strides[1][i];
      matrix /= loop.shape[i];
    }
    transpose_tile(to + to_offset, to_step, from + from_offset, from_step,
                   std::min(tile, rows - row), std::min(tile, columns - column));
  };
  parallel_for(matrices * row_tiles * column_tiles, cheap_grain / (tile * tile),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t index = begin; index < end; ++index) copy_tile(index);
               });
}

}  // namespace

void copy_values(const View& to, const View& from) {
  const auto loop = merge_dims<2>(to.shape, {&to.strides, &from.strides});
  const int row_dim = to.dtype == from.dtype ? transposed_dim(loop) : -1;
  if (row_dim >= 0) {
    visit_any(to.dtype, [&](auto zero) {
      using T = decltype(zero);
      copy_transposed(loop, row_dim, to.as<T>(), from.as<const T>());
    });
    return;
  }
  const CopyRun run = copy_run_for(to.dtype, from.dtype);
  parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
    run(to.address(offsets[0]), loop.inner_stride(0), from.address(offsets[1]),
        loop.inner_stride(1), count);
  });
}

void fill_values(const View& to, double value) {
  const auto loop = merge_dims<1>(to.shape, {&to.strides});
  visit_any(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* data = to.as<T>();
    const T element = convert<T>(value);
    parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
      copy_run(data + offsets[0], loop.inner_stride(0), &element, 0, count);
    });
  });
}

}  // namespace tapehead
