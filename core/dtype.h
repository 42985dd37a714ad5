// Element types.
#pragma once

#include <tapehead/core/half.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tapehead {

/// Element type of a tensor. Arithmetic lives in f32 and f64; bf16 and f16 store numbers for it
/// (to() converts); i64 holds indices and boolean holds masks (one byte an element, 0 or 1).
enum class DType : std::uint8_t { f32, f64, bf16, f16, i64, boolean };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64:
    case DType::i64: return 8;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::boolean: return 1;
  }
  return 0;
}

/// "f32", "f64", "bf16", "f16", "i64" or "bool".
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
  }
  return "unknown";
}

/// Whether the type only stores numbers: operations that compute refuse it.
constexpr bool is_storage_only(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Whether a gradient can flow through a tensor of this type.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || is_storage_only(dtype);
}

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
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
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
inline constexpr DType dtype_of = [] {
  constexpr bool is_element = requires { DTypeOf<T>::value; };
  static_assert(is_element, "elements are float, double, std::int64_t, bool, BFloat16 or Float16");
  if constexpr (is_element) return DTypeOf<T>::value;
  else return DType::f32;
}();

namespace detail {

/// Throws DTypeError. Checks stand before, so it means a mistake in the library: no type is ever
/// read as another.
[[noreturn]] void reject_dtype(DType dtype);
/// Throws DTypeError: elements of `dtype` would be read or written as those of `wanted`.
[[noreturn]] void reject_element_type(DType dtype, DType wanted);

}  // namespace detail

// A kernel picks its element type through one of these, by what it does with the elements.

/// Computes with floating elements: calls f(float{}) or f(double{}).
template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  if (dtype == DType::f32) return std::forward<F>(f)(float{});
  if (dtype == DType::f64) return std::forward<F>(f)(double{});
  detail::reject_dtype(dtype);
}

/// Computes with elements: calls f with a value of the C++ type that `dtype` names, which is not
/// bf16 or f16.
template <class F>
decltype(auto) visit_numbers(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    case DType::i64: return std::forward<F>(f)(std::int64_t{});
    case DType::boolean: return std::forward<F>(f)(bool{});
    case DType::bf16:
    case DType::f16: break;
  }
  detail::reject_dtype(dtype);
}

/// Moves or converts elements: calls f with a value of the C++ type that `dtype` names.
template <class F>
decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return std::forward<F>(f)(float{});
    case DType::f64: return std::forward<F>(f)(double{});
    case DType::bf16: return std::forward<F>(f)(BFloat16{});
    case DType::f16: return std::forward<F>(f)(Float16{});
    case DType::i64: return std::forward<F>(f)(std::int64_t{});
    case DType::boolean: break;
  }
  return std::forward<F>(f)(bool{});
}

/// `value` as a number of type To, as C++ has it; towards zero for i64, where what lies outside
/// becomes the nearest end of its range, and NaN 0.
template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, std::int64_t> && !std::is_integral_v<From>) {
    const auto number = static_cast<double>(value);
    if (number >= 0x1p63) return std::numeric_limits<To>::max();
    if (number < -0x1p63) return std::numeric_limits<To>::min();
    return number != number ? 0 : static_cast<To>(number);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace tapehead
