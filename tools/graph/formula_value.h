// Formulas in named sizes, as closed forms of bytes are printed: "4*B*h*T^2 + 20*B*T*d + T^2".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tapehead::graph {

/// {{"B", 8}, {"T", 128}}
using Sizes = std::map<std::string, std::int64_t, std::less<>>;

/// The exact value of a formula made of whole numbers, names, + - * ^ and parentheses; ^ binds more
/// tightly than *, and * than + and -. ValueError when it is none, when a name is not among the
/// sizes, when an exponent is negative, or when a part of it does not fit in 63 bits.
std::int64_t formula_value(std::string_view formula, const Sizes& sizes);

}  // namespace tapehead::graph
