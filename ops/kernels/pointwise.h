// Loops over elements: a driver each for one, two and three operands of any strides, broadcast.
//
// The functor is inlined into loops that are compiled for each instruction set; its type must be
// local to one source file (a lambda, or a struct in an unnamed namespace), for such functions
// cannot be merged between files.
// There is one loop a functor, over unit steps: an operand with other steps is copied into a small
// buffer, a block at a time, so that expanded and transposed operands are computed on as fast.
#pragma once

#include <tapehead/core/view.h>
#include <tapehead/ops/kernels/multiversion.h>

#include <algorithm>

namespace tapehead::kernels {

inline constexpr std::int64_t cheap_grain = 16384;  // a few additions an element
inline constexpr std::int64_t costly_grain = 4096;  // an exponential an element

namespace detail {

inline constexpr std::int64_t block = 512;  // elements: three operands of doubles fit into L1

/// A run of elements `stride` apart, read in pieces of at most `piece` elements in unit steps.
template <class T>
class RunReader {
 public:
  RunReader(const T* data, std::int64_t stride, std::int64_t piece) : data_(data), stride_(stride) {
    if (stride_ == 0) std::fill_n(buffer_, piece, *data);
  }
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  const T* at(std::int64_t begin, std::int64_t count) {
    if (stride_ == 1) return data_ + begin;
    if (stride_ != 0)
      for (std::int64_t i = 0; i < count; ++i) buffer_[i] = data_[(begin + i) * stride_];
    return buffer_;
  }

 private:
  const T* data_;
  std::int64_t stride_;
  alignas(64) T buffer_[block];
};

/// How much of a run is worked on at once: all of it when every operand has unit steps.
template <class... Stride>
std::int64_t piece_of(std::int64_t count, Stride... strides) {
  return ((strides == 1) && ...) ? count : std::min(count, block);
}

template <class F, class X, class Y>
TAPEHEAD_MULTIVERSION void unary_run(F f, const X* x, std::int64_t dx, Y* y, std::int64_t count) {
  const std::int64_t piece = piece_of(count, dx);
  RunReader<X> xs(x, dx, piece);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t n = std::min(piece, count - begin);
    const X* xi = xs.at(begin, n);
    Y* yi = y + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) yi[i] = f(xi[i]);
  }
}

template <class F, class A, class B, class Y>
TAPEHEAD_MULTIVERSION void binary_run(F f, const A* a, std::int64_t da, const B* b, std::int64_t db,
                                      Y* y, std::int64_t count) {
  const std::int64_t piece = piece_of(count, da, db);
  RunReader<A> as(a, da, piece);
  RunReader<B> bs(b, db, piece);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t n = std::min(piece, count - begin);
    const A* ai = as.at(begin, n);
    const B* bi = bs.at(begin, n);
    Y* yi = y + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) yi[i] = f(ai[i], bi[i]);
  }
}

template <class F, class A, class B, class C, class Y>
TAPEHEAD_MULTIVERSION void ternary_run(F f, const A* a, std::int64_t da, const B* b,
                                       std::int64_t db, const C* c, std::int64_t dc, Y* y,
                                       std::int64_t count) {
  const std::int64_t piece = piece_of(count, da, db, dc);
  RunReader<A> as(a, da, piece);
  RunReader<B> bs(b, db, piece);
  RunReader<C> cs(c, dc, piece);
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t n = std::min(piece, count - begin);
    const A* ai = as.at(begin, n);
    const B* bi = bs.at(begin, n);
    const C* ci = cs.at(begin, n);
    Y* yi = y + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) yi[i] = f(ai[i], bi[i], ci[i]);
  }
}

}  // namespace detail

/// y = f(x), element by element; equal shapes. X and Y are the element types. y is row-major; it
/// may be x itself, as in binary and ternary it may be any operand of its shape.
template <class X, class Y, class F>
void unary(const View& x, const View& y, F f, std::int64_t grain = cheap_grain) {
  const auto loop = merge_dims<2>(y.shape, {&x.strides, &y.strides});
  parallel_runs(loop, grain, [&](const auto& offsets, std::int64_t count) {
    detail::unary_run(f, x.as<const X>() + offsets[0], loop.inner_stride(0), y.as<Y>() + offsets[1],
                      count);
  });
}

/// y = f(a, b); a and b broadcast to y's shape; y is row-major.
template <class A, class B, class Y, class F>
void binary(const View& a, const View& b, const View& y, F f, std::int64_t grain = cheap_grain) {
  const Strides sa = expanded_strides(a.shape, a.strides, y.shape);
  const Strides sb = expanded_strides(b.shape, b.strides, y.shape);
  const auto loop = merge_dims<3>(y.shape, {&sa, &sb, &y.strides});
  parallel_runs(loop, grain, [&](const auto& offsets, std::int64_t count) {
    detail::binary_run(f, a.as<const A>() + offsets[0], loop.inner_stride(0),
                       b.as<const B>() + offsets[1], loop.inner_stride(1), y.as<Y>() + offsets[2],
                       count);
  });
}

/// y = f(a, b, c); all broadcast to y's shape; y is row-major.
template <class A, class B, class C, class Y, class F>
void ternary(const View& a, const View& b, const View& c, const View& y, F f,
             std::int64_t grain = cheap_grain) {
  const Strides sa = expanded_strides(a.shape, a.strides, y.shape);
  const Strides sb = expanded_strides(b.shape, b.strides, y.shape);
  const Strides sc = expanded_strides(c.shape, c.strides, y.shape);
  const auto loop = merge_dims<4>(y.shape, {&sa, &sb, &sc, &y.strides});
  parallel_runs(loop, grain, [&](const auto& offsets, std::int64_t count) {
    detail::ternary_run(f, a.as<const A>() + offsets[0], loop.inner_stride(0),
                        b.as<const B>() + offsets[1], loop.inner_stride(1),
                        c.as<const C>() + offsets[2], loop.inner_stride(2), y.as<Y>() + offsets[3],
                        count);
  });
}

}  // namespace tapehead::kernels
