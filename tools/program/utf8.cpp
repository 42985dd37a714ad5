#include "utf8.h"

#include <tapehead/core/error.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace tapehead::program {
namespace {

struct Lead {
  std::size_t length = 0;  // bytes of the whole sequence, 0 for a byte that cannot begin one
  char32_t bits = 0;       // of the code point in the first byte
  char32_t smallest = 0;   // below it the sequence is longer than it need be
};

Lead read_lead(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xc0 && byte < 0xe0) return {2, byte & 0x1fu, 0x80};
  if (byte >= 0xe0 && byte < 0xf0) return {3, byte & 0x0fu, 0x800};
  if (byte >= 0xf0 && byte < 0xf8) return {4, byte & 0x07u, 0x10000};
  return {};
}

bool is_scalar_value(char32_t code_point) {
  return code_point <= 0x10ffff && !(code_point >= 0xd800 && code_point <= 0xdfff);
}

[[noreturn]] void fail(std::string_view text, std::size_t at, const std::string& source) {
  std::array<char, 8> byte;
  std::snprintf(byte.data(), byte.size(), "0x%02x", static_cast<unsigned char>(text[at]));
  throw ValueError("text",
                   source + ": not UTF-8 at byte " + std::to_string(at) + " (" + byte.data() + ")");
}

}  // namespace

std::vector<char32_t> decode_utf8(std::string_view text, const std::string& source) {
  std::vector<char32_t> code_points;
  code_points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Lead lead = read_lead(static_cast<unsigned char>(text[at]));
    if (lead.length == 0 || lead.length > text.size() - at) fail(text, at, source);
    char32_t code_point = lead.bits;
    for (std::size_t i = 1; i < lead.length; ++i) {
      const auto byte = static_cast<unsigned char>(text[at + i]);
      if ((byte & 0xc0) != 0x80) fail(text, at, source);
      code_point = code_point << 6 | (byte & 0x3fu);
    }
    if (code_point < lead.smallest || !is_scalar_value(code_point)) fail(text, at, source);
    code_points.push_back(code_point);
    at += lead.length;
  }
  return code_points;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto byte = [&](char32_t value) {
    text += static_cast<char>(static_cast<unsigned char>(value));
  };
  const auto trail = [&](int shift) { byte(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xc0 | code_point >> 6);
    trail(0);
  } else if (code_point < 0x10000) {
    byte(0xe0 | code_point >> 12);
    trail(6);
    trail(0);
  } else {
    byte(0xf0 | code_point >> 18);
    trail(12);
    trail(6);
    trail(0);
  }
}

}  // namespace tapehead::program
