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

/// The exact value of a formula made of whole numbers, names, + - * / ^ and parentheses; ^ binds
/// more tightly than * and /, and these than + and -. It reads whatever a closed form prints, such
/// as "3/2*B*T^2 + 1/2*B*T". ValueError when it is none, when a name is not among the sizes, when
/// an exponent is negative or no whole number, for a division by 0, when the value is not whole or
/// does not fit in 63 bits, or a part of it not in 127.
std::int64_t formula_value(std::string_view formula, const Sizes& sizes);

}  // namespace tapehead::graph
