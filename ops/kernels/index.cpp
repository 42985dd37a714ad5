#include <tapehead/ops/kernels/index.h>

#include <algorithm>

namespace tapehead::kernels {
namespace {

constexpr std::int64_t line = 16;  // floats in a cache line: two threads do not share one

// The strides of an indexed operand without its own dim, which `index` walks instead.
Strides without(Strides strides, std::int64_t dim) {
  strides[dim] = 0;
  return strides;
}

template <class T>
void gather_run(T* y, std::int64_t dy, const T* x, std::int64_t dx, const std::int64_t* index,
                std::int64_t di, std::int64_t step, std::int64_t count) {
  if (di == 0) x += *index * step;
  if (di == 0 && dy == 1 && dx == 1) {
    std::copy_n(x, count, y);
  } else if (di == 0) {
    for (std::int64_t i = 0; i < count; ++i) y[i * dy] = x[i * dx];
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i * dy] = x[i * dx + index[i * di] * step];
  }
}

template <class T>
void scatter_add_run(T* y, std::int64_t dy, const T* x, std::int64_t dx, const std::int64_t* index,
                     std::int64_t di, std::int64_t step, std::int64_t count) {
  if (di == 0) y += *index * step;
  if (di == 0 && dy == 1 && dx == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
  } else if (di == 0) {
    for (std::int64_t i = 0; i < count; ++i) y[i * dy] += x[i * dx];
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i * dy + index[i * di] * step] += x[i * dx];
  }
}

// Keeps the columns before `cut` (lower) or from it on, and makes the others 0.
template <class T>
void triangle_row(T* y, std::int64_t dy, const T* x, std::int64_t dx, std::int64_t columns,
                  std::int64_t cut, bool lower) {
  const std::int64_t begin = lower ? 0 : cut, end = lower ? cut : columns;
  for (std::int64_t j = 0; j < begin; ++j) y[j * dy] = T(0);
  for (std::int64_t j = begin; j < end; ++j) y[j * dy] = x[j * dx];
  for (std::int64_t j = end; j < columns; ++j) y[j * dy] = T(0);
}

// The longest dim along which the target moves whatever the index says: ranges of it are disjoint
// parts of the target. -1 when there is none.
int independent_dim(const StridedLoop<3>& loop) {
  int best = -1;
  for (int i = 0; i < loop.shape.rank(); ++i)
    if (loop.strides[0][i] != 0 && (best < 0 || loop.shape[i] > loop.shape[best])) best = i;
  return best;
}

// The positions [begin, end) of dim `split` of a loop; the whole loop when there is no such dim.
struct Part {
  StridedLoop<3> loop;
  std::array<std::int64_t, 3> start{};
};
Part part_of(const StridedLoop<3>& loop, int split, std::int64_t begin, std::int64_t end) {
  Part part{loop};
  if (split < 0) return part;
  part.loop.shape[split] = end - begin;
  for (std::size_t k = 0; k < 3; ++k) part.start[k] = begin * loop.strides[k][split];
  return part;
}

}  // namespace

std::optional<std::int64_t> first_outside(const View& index, std::int64_t size) {
  const auto loop = merge_dims<1>(index.shape, {&index.strides});
  const std::int64_t step = loop.inner_stride(0);
  const std::int64_t* data = index.as<const std::int64_t>();
  std::optional<std::int64_t> found;
  for_each_run(loop, 0, numel(index.shape), [&](const auto& offsets, std::int64_t count) {
    const std::int64_t* entries = data + offsets[0];
    for (std::int64_t i = 0; i < count && !found; ++i)
      if (entries[i * step] < 0 || entries[i * step] >= size) found = entries[i * step];
  });
  return found;
}

void gather(const View& y, const View& x, std::int64_t dim, const View& index) {
  const Strides x_strides = without(x.strides, dim);
  const auto loop = merge_dims<3>(y.shape, {&y.strides, &x_strides, &index.strides});
  visit_numbers(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_runs(loop, cheap_grain, [&](const auto& offsets, std::int64_t count) {
      gather_run(y.as<T>() + offsets[0], loop.inner_stride(0), x.as<const T>() + offsets[1],
                 loop.inner_stride(1), index.as<const std::int64_t>() + offsets[2],
                 loop.inner_stride(2), x.strides[dim], count);
    });
  });
}

void scatter_add(const View& y, std::int64_t dim, const View& index, const View& x) {
  if (numel(x.shape) == 0) return;
  const Strides y_strides = without(y.strides, dim);
  const auto loop = merge_dims<3>(x.shape, {&y_strides, &x.strides, &index.strides});
  const int split = independent_dim(loop);
  const std::int64_t length = split < 0 ? 1 : loop.shape[split];
  const std::int64_t parts = (length + line - 1) / line;
  const std::int64_t parts_a_thread =
      std::max<std::int64_t>(cheap_grain * parts / numel(x.shape), 1);
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(parts, parts_a_thread, [&](std::int64_t first, std::int64_t last) {
      const Part part = part_of(loop, split, first * line, std::min(last * line, length));
      T* to = y.as<T>() + part.start[0];
      const T* from = x.as<const T>() + part.start[1];
      const std::int64_t* positions = index.as<const std::int64_t>() + part.start[2];
      for_each_run(part.loop, 0, numel(part.loop.shape), [&](const auto& offsets, auto count) {
        scatter_add_run(to + offsets[0], loop.inner_stride(0), from + offsets[1],
                        loop.inner_stride(1), positions + offsets[2], loop.inner_stride(2),
                        y.strides[dim], count);
      });
    });
  });
}

void triangle(const View& y, const View& x, std::int64_t diagonal, bool lower) {
  if (numel(x.shape) == 0) return;
  const int column_dim = x.shape.rank() - 1;
  const std::int64_t rows = x.shape[column_dim - 1], columns = x.shape[column_dim];
  const std::int64_t shift = std::clamp(diagonal, -rows, columns);  // so that sums do not overflow
  Shape row_shape = x.shape;
  Strides y_strides = y.strides, x_strides = x.strides;
  row_shape.erase(column_dim);
  y_strides.erase(column_dim);
  x_strides.erase(column_dim);
  const auto loop = merge_dims<2>(row_shape, {&y_strides, &x_strides});
  const std::int64_t rows_a_thread = std::max<std::int64_t>(cheap_grain / columns, 1);
  visit_numbers(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(numel(row_shape), rows_a_thread, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t row = begin;
      for_each_run(loop, begin, end, [&](const auto& offsets, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i, ++row) {
          const std::int64_t cut = row % rows + shift + (lower ? 1 : 0);
          triangle_row(y.as<T>() + offsets[0] + i * loop.inner_stride(0), y.strides[column_dim],
                       x.as<const T>() + offsets[1] + i * loop.inner_stride(1),
                       x.strides[column_dim], columns, std::clamp<std::int64_t>(cut, 0, columns),
                       lower);
        }
      });
    });
  });
}

}  // namespace tapehead::kernels
