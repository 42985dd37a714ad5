#include <tapehead/ops/kernels/pointwise.h>
#include <tapehead/ops/kernels/run_reader.h>

#include <algorithm>
#include <cstddef>

namespace tapehead::kernels::detail {
namespace {

template <std::size_t N>
void run_in_pieces(const std::array<const View*, N>& operands, const StridedLoop<N>& loop,
                   const std::array<std::int64_t, N>& offsets, std::int64_t count, Piece<N> piece) {
  std::array<RunReader, N> readers;
  std::int64_t longest = count;
  for (std::size_t k = 0; k < N; ++k) {
    const std::int64_t stride = count == 1 ? 1 : loop.inner_stride(k);
    readers[k].start(operands[k]->address(offsets[k]), size_of(operands[k]->dtype), stride);
    if (stride != 1) longest = std::min(longest, RunReader::block);
  }
  for (std::int64_t begin = 0; begin < count; begin += longest) {
    const std::int64_t n = std::min(longest, count - begin);
    std::array<void*, N> at;
    // The last is written to; it has unit steps, so it is the operand itself.
    for (std::size_t k = 0; k < N; ++k) at[k] = const_cast<void*>(readers[k].at(begin, n));
    piece(at, n);
  }
}

// The common case, for which the general way would cost more than a small tensor's elements.
template <std::size_t N>
bool all_row_major(const std::array<const View*, N>& operands) {
  for (const View* operand : operands)
    if (operand->shape != operands.back()->shape ||
        !is_contiguous(operand->shape, operand->strides))
      return false;
  return true;
}

template <std::size_t N>
void run_row_major(const std::array<const View*, N>& operands, std::int64_t grain, Piece<N> piece) {
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    std::array<void*, N> at;
    for (std::size_t k = 0; k < N; ++k) at[k] = operands[k]->address(begin);
    piece(at, end - begin);
  };
  parallel_for(numel(operands.back()->shape), grain, run);
}

template <std::size_t N>
void walk(const std::array<const View*, N>& operands, std::int64_t grain, Piece<N> piece) {
  if (all_row_major(operands)) return run_row_major(operands, grain, piece);
  const Shape& shape = operands.back()->shape;
  std::array<Strides, N> strides;
  std::array<const Strides*, N> pointers;
  for (std::size_t k = 0; k < N; ++k) {
    strides[k] = expanded_strides(operands[k]->shape, operands[k]->strides, shape);
    pointers[k] = &strides[k];
  }
  const StridedLoop<N> loop = merge_dims<N>(shape, pointers);
  parallel_runs(loop, grain, [&](const auto& offsets, std::int64_t count) {
    run_in_pieces<N>(operands, loop, offsets, count, piece);
  });
}

}  // namespace

void for_pieces(const View& x, const View& y, std::int64_t grain, Piece<2> piece) {
  walk<2>({&x, &y}, grain, piece);
}
void for_pieces(const View& a, const View& b, const View& y, std::int64_t grain, Piece<3> piece) {
  walk<3>({&a, &b, &y}, grain, piece);
}
void for_pieces(const View& a, const View& b, const View& c, const View& y, std::int64_t grain,
                Piece<4> piece) {
  walk<4>({&a, &b, &c, &y}, grain, piece);
}

}  // namespace tapehead::kernels::detail
