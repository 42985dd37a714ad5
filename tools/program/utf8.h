// Text as Unicode code points.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapehead::program {

/// The code points of UTF-8 text. Strict: overlong forms, surrogates and code points above U+10FFFF
/// are a ValueError that names `source` and the byte.
std::vector<char32_t> decode_utf8(std::string_view text, const std::string& source);

/// Appends one code point as UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace tapehead::program
