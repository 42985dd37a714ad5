// The characters of names and numbers in what is parsed: ASCII, in any locale.
#pragma once

namespace tapehead::graph {

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace tapehead::graph
