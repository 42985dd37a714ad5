// Walking tensors line by line along one dim: for kernels in which each element depends on those
// before it. Several lines are handed out together, so that independent chains overlap.
#pragma once

#include <tapehead/core/view.h>

#include <array>

namespace tapehead::kernels {

/// `width` lines of N tensors along one dim: element i of line j of operand k stands at
/// start[k] + i * step[k] + j * next[k].
template <std::size_t N>
struct Lines {
  std::int64_t length = 0, width = 0;
  std::array<std::int64_t, N> start{}, step{}, next{};

  static constexpr std::int64_t max_width = 64;
  /// Of lines that do not stand side by side: each of them takes a cache line of its own, and lines
  /// a power of two apart take the same few places in the cache.
  static constexpr std::int64_t max_width_apart = 4;
};

/// Calls f(lines) for blocks that cover all lines along `dim` (0 for a 0-d tensor). The tensors
/// have one shape but for the size of `dim`, which is that of the first.
template <std::size_t N, class F>
void for_each_lines(const std::array<const View*, N>& views, std::int64_t dim, F&& f) {
  Lines<N> proto;
  Shape shape = views[0]->shape;
  std::array<Strides, N> strides;
  std::array<const Strides*, N> pointers{};
  proto.length = shape.rank() == 0 ? 1 : shape[dim];
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = views[k]->strides;
    if (shape.rank() > 0) {
      proto.step[k] = strides[k][dim];
      strides[k].erase(dim);
    }
    pointers[k] = &strides[k];
  }
  if (shape.rank() > 0) shape.erase(dim);
  const auto loop = merge_dims<N>(shape, pointers);
  for (std::size_t k = 0; k < N; ++k) proto.next[k] = loop.inner_stride(k);
  const std::int64_t width =
      proto.next[0] <= proto.step[0] ? Lines<N>::max_width : Lines<N>::max_width_apart;
  const auto run_lines = [&](const auto& offsets, std::int64_t count) {
    for (std::int64_t done = 0; done < count; done += width) {
      Lines<N> lines = proto;
      lines.width = std::min(count - done, width);
      for (std::size_t k = 0; k < N; ++k) lines.start[k] = offsets[k] + done * proto.next[k];
      f(static_cast<const Lines<N>&>(lines));
    }
  };
  parallel_runs(loop, cheap_grain / std::max<std::int64_t>(proto.length, 1) + 1, run_lines);
}

}  // namespace tapehead::kernels
