#include <tapehead/ops/kernels/pointwise.h>

#include <algorithm>
#include <cstddef>

namespace tapehead::kernels::detail {
namespace {

constexpr std::int64_t block = 512;  // elements: three operands of doubles fit into L1

// Copies elements that stand `stride` apart; an element is as large as a Word.
template <class Word>
void gather(const void* from, std::int64_t stride, std::byte* to, std::int64_t count) {
  const Word* source = static_cast<const Word*>(from);
  Word* words = reinterpret_cast<Word*>(to);
  for (std::int64_t i = 0; i < count; ++i) words[i] = source[i * stride];
}

// A run of one operand, handed out in unit steps: as it stands in memory where it has them.
class RunReader {
 public:
  void start(const View& operand, std::int64_t offset, std::int64_t stride) {
    first_ = operand.address(offset);
    bytes_ = static_cast<std::int64_t>(size_of(operand.dtype));
    stride_ = stride;
  }

  // Elements [begin, begin + count) of the run; at most `block` of them when they are to be copied.
  void* at(std::int64_t begin, std::int64_t count) {
    if (stride_ == 1) return first_ + begin * bytes_;
    if (stride_ == 0 && filled_ >= count) return buffer_;
    fill(first_ + begin * stride_ * bytes_, count);
    filled_ = count;
    return buffer_;
  }

 private:
  void fill(const void* from, std::int64_t count) {
    if (bytes_ == 8) gather<std::uint64_t>(from, stride_, buffer_, count);
    else if (bytes_ == 4) gather<std::uint32_t>(from, stride_, buffer_, count);
    else gather<std::uint8_t>(from, stride_, buffer_, count);
  }

  std::byte* first_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t filled_ = 0;
  alignas(64) std::byte buffer_[block * sizeof(std::uint64_t)];
};

template <std::size_t N>
void run_in_pieces(const std::array<const View*, N>& operands, const StridedLoop<N>& loop,
                   const std::array<std::int64_t, N>& offsets, std::int64_t count, Piece<N> piece) {
  std::array<RunReader, N> readers;
  std::int64_t longest = count;
  for (std::size_t k = 0; k < N; ++k) {
    const std::int64_t stride = count == 1 ? 1 : loop.inner_stride(k);
    readers[k].start(*operands[k], offsets[k], stride);
    if (stride != 1) longest = std::min(longest, block);
  }
  for (std::int64_t begin = 0; begin < count; begin += longest) {
    const std::int64_t n = std::min(longest, count - begin);
    std::array<void*, N> at;
    for (std::size_t k = 0; k < N; ++k) at[k] = readers[k].at(begin, n);
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
