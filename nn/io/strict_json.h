// JSON that means one thing only, for files that others may have written: nlohmann's parser keeps
// the last of two values of one key, takes a zero byte for the end of the text, calls a number that
// is too large no JSON, and makes an integer of any number. Internal, and not installed: users of
// the library need no JSON library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tapehead::io {

/// What is wrong with a text. The caller puts the name of the file before it.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text as one value. JsonError that says where ("cases[3].args.dim"): what is not JSON, a key
/// that an object has twice, a number beyond float64, lists and objects more than `deepest` deep.
nlohmann::json parse_json(std::string_view text, std::size_t deepest = 32);

/// The value as a 64-bit integer; nothing when it is no whole number, or beyond 64 bits.
std::optional<std::int64_t> integer_of(const nlohmann::json& value);

/// The integer of that key of an object; JsonError when there is none.
std::int64_t integer_at(const nlohmann::json& object, const char* key);
/// The same up to 2^64 - 1, from 0.
std::uint64_t unsigned_at(const nlohmann::json& object, const char* key);

/// JsonError when the text has a zero byte, which the parser would take for its end.
void check_no_zero_byte(std::string_view text);

/// As much of a text from a file as a line of complaint can hold: a longer one loses its middle to
/// "...", never a part of a UTF-8 character.
std::string shortened(std::string_view text);

/// What the parser says is wrong with the text: "not JSON: ", or, of a number beyond float64, that.
/// What it quotes is shortened().
std::string json_fault(const nlohmann::json::exception& error);

}  // namespace tapehead::io
