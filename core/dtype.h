// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tapehead {

/// Element type of a tensor. Arithmetic and gradients live in f32 and f64; i64 holds indices and
/// boolean holds masks (one byte an element, 0 or 1).
enum class DType : std::uint8_t { f32, f64, i64, boolean };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64:
    case DType::i64: return 8;
    case DType::boolean: return 1;
  }
  return 0;
}

/// "f32", "f64", "i64" or "bool".
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
  }
  return "unknown";
}

constexpr bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

/// The DType that holds elements of the C++ type T.
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls f with a value of the floating C++ type that `dtype` names: f(float{}) or f(double{}).
/// The caller has checked that `dtype` is floating.
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  return dtype == DType::f32 ? std::forward<F>(f)(float{}) : std::forward<F>(f)(double{});
}

/// Calls f with a value of the C++ type that `dtype` names.
template <class F>
decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    case DType::i64: return std::forward<F>(f)(std::int64_t{});
    case DType::boolean: break;
  }
  return std::forward<F>(f)(bool{});
}

}  // namespace tapehead
