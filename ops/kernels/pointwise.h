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

#include <array>
#include <cstdint>

namespace tapehead::kernels {

namespace detail {

template <class F, class X, class Y>
TAPEHEAD_MULTIVERSION void unary_loop(F f, const X* x, Y* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

template <class F, class A, class B, class Y>
TAPEHEAD_MULTIVERSION void binary_loop(F f, const A* a, const B* b, Y* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
}

template <class F, class A, class B, class C, class Y>
TAPEHEAD_MULTIVERSION void ternary_loop(F f, const A* a, const B* b, const C* c, Y* y,
                                        std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i], c[i]);
}

/// `count` elements of each operand, adjacent in memory; y is the last operand.
template <std::size_t N>
using Piece = FunctionRef<void(const std::array<void*, N>& operands, std::int64_t count)>;

/// Calls `piece` for pieces that cover y, on several threads; the operands broadcast to y's shape.
/// What does not depend on the functor stands here, and is compiled once.
void for_pieces(const View& x, const View& y, std::int64_t grain, Piece<2> piece);
void for_pieces(const View& a, const View& b, const View& y, std::int64_t grain, Piece<3> piece);
void for_pieces(const View& a, const View& b, const View& c, const View& y, std::int64_t grain,
                Piece<4> piece);

template <class T>
T* elements(void* operand) {
  return static_cast<T*>(operand);
}

}  // namespace detail

/// y = f(x), element by element; x broadcasts to y's shape. X and Y are the element types. y is
/// row-major; it may be x itself, as in binary and ternary it may be any operand of its shape.
template <class X, class Y, class F>
void unary(const View& x, const View& y, F f, std::int64_t grain = cheap_grain) {
  detail::for_pieces(x, y, grain, [&](const auto& at, std::int64_t count) {
    detail::unary_loop(f, detail::elements<const X>(at[0]), detail::elements<Y>(at[1]), count);
  });
}

/// y = f(a, b); a and b broadcast to y's shape; y is row-major.
template <class A, class B, class Y, class F>
void binary(const View& a, const View& b, const View& y, F f, std::int64_t grain = cheap_grain) {
  detail::for_pieces(a, b, y, grain, [&](const auto& at, std::int64_t count) {
    detail::binary_loop(f, detail::elements<const A>(at[0]), detail::elements<const B>(at[1]),
                        detail::elements<Y>(at[2]), count);
  });
}

/// y = f(a, b, c); all broadcast to y's shape; y is row-major.
template <class A, class B, class C, class Y, class F>
void ternary(const View& a, const View& b, const View& c, const View& y, F f,
             std::int64_t grain = cheap_grain) {
  detail::for_pieces(a, b, c, y, grain, [&](const auto& at, std::int64_t count) {
    detail::ternary_loop(f, detail::elements<const A>(at[0]), detail::elements<const B>(at[1]),
                         detail::elements<const C>(at[2]), detail::elements<Y>(at[3]), count);
  });
}

}  // namespace tapehead::kernels
