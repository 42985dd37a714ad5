// Errors. Every failure of the library is one of these kinds. Tensors are as they were, and tape
// and process stay usable; an error in the middle of a gradient call consumes its record (tape.h),
// and random numbers that were drawn stay drawn.
//
// The text always reads "operation: what was got: the rule that was broken", and ends with the
// module path when the call was made inside a module ("in blocks.0.attn").
#pragma once

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tapehead {

/// What went wrong; each kind has a class below.
enum class ErrorKind { shape, index, dtype, value, state, io, out_of_memory, nan };

/// "shape", "index", "dtype", "value", "state", "io", "out_of_memory" or "nan".
std::string_view to_string(ErrorKind kind);

/// Base of all errors that the library throws on purpose.
class Error : public std::runtime_error {
 public:
  /// The text is "operation: message", with the path of the module that runs behind it.
  Error(ErrorKind kind, std::string_view operation, std::string_view message);
  /// Which of the classes below it is.
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// One class a kind, so that callers can catch exactly what they can handle.
template <ErrorKind K>
class ErrorOf : public Error {
 public:
  /// As Error's.
  ErrorOf(std::string_view operation, std::string_view message) : Error(K, operation, message) {}
};

/// Operands' shapes do not fit each other, or the shape asked for is impossible.
using ShapeError = ErrorOf<ErrorKind::shape>;
/// A dim or a position is out of range.
using IndexError = ErrorOf<ErrorKind::index>;
/// The operation does not take this element type.
using DTypeError = ErrorOf<ErrorKind::dtype>;
/// An argument is not allowed whatever the tensors hold.
using ValueError = ErrorOf<ErrorKind::value>;
/// The call comes at a time when it is not allowed (closed tape, freed record, stale tensor...).
using StateError = ErrorOf<ErrorKind::state>;
/// A file could not be read or written.
using IoError = ErrorOf<ErrorKind::io>;
/// An allocation failed or would pass the memory limit.
using OutOfMemoryError = ErrorOf<ErrorKind::out_of_memory>;
// NanError, of kind nan, is thrown by a NanGuard (nan_guard.h) and carries its report.

/// A number as messages and summaries show it: the shortest decimal that reads back as `value`, in
/// any locale.
std::string format_number(double value);
/// The same in a style of std::to_chars with `digits` digits: after the point, or of general style
/// in all, which ends without zeros. As printf's %f, %e and %g, but always with a point.
std::string format_number(double value, std::chars_format style, int digits);

}  // namespace tapehead
