#include <tapehead/nn/io/strict_json.h>

#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace tapehead::io {
namespace {

using nlohmann::json;

constexpr int number_overflow = 406;  // the library's number of this fault

// Follows the parser through the text: which lists and objects it is in, and where in each.
class Place {
 public:
  explicit Place(std::size_t deepest) : deepest_(deepest) {}

  void follow(json::parse_event_t event, const json& value) {
    switch (event) {
      case json::parse_event_t::object_start: open(false); break;
      case json::parse_event_t::array_start: open(true); break;
      case json::parse_event_t::key: enter(value.get<std::string>()); break;
      case json::parse_event_t::value: pass(); break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end: levels_.pop_back(); pass();
    }
  }

  // "", or "at cases[3].args.dim: ".
  std::string text() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.is_list) path += "[" + std::to_string(level.index) + "]";
      else if (!level.key.empty()) path += (path.empty() ? "" : ".") + shortened(level.key);
    }
    return path.empty() ? path : "at " + path + ": ";
  }

 private:
  struct Level {
    bool is_list = false;
    std::size_t index = 0;  // of the element that is being read
    std::string key = {};
    std::set<std::string> keys = {};
  };

  void open(bool is_list) {
    if (levels_.size() == deepest_)
      throw JsonError(text() + "nested too deeply, more than " + std::to_string(deepest_) +
                      " lists and objects");
    levels_.push_back({.is_list = is_list});
  }
  void enter(std::string key) {
    levels_.back().key = std::move(key);
    if (!levels_.back().keys.insert(levels_.back().key).second)
      throw JsonError(text() + "the key stands there twice");
  }
  void pass() {
    if (!levels_.empty()) ++levels_.back().index;
  }

  const std::size_t deepest_;
  std::vector<Level> levels_;
};

}  // namespace

json parse_json(std::string_view text, std::size_t deepest) {
  check_no_zero_byte(text);
  Place place(deepest);
  try {
    return json::parse(text, [&](int, json::parse_event_t event, const json& value) {
      place.follow(event, value);
      return true;
    });
  } catch (const json::exception& error) {
    throw JsonError(place.text() + json_fault(error));
  }
}

std::optional<std::int64_t> integer_of(const json& value) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > largest) return std::nullopt;
  return value.get<std::int64_t>();
}

namespace {

const json& value_at(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key))
    throw JsonError("\"" + std::string(key) + "\" is missing");
  return object[key];
}

[[noreturn]] void reject_number(const char* key, const json& value, const char* what) {
  throw JsonError("\"" + std::string(key) + "\" is " + shortened(value.dump()) + ", not " + what);
}

}  // namespace

std::int64_t integer_at(const json& object, const char* key) {
  const json& value = value_at(object, key);
  const std::optional<std::int64_t> integer = integer_of(value);
  if (!integer) reject_number(key, value, "a 64-bit integer");
  return *integer;
}

std::uint64_t unsigned_at(const json& object, const char* key) {
  const json& value = value_at(object, key);
  if (!value.is_number_unsigned()) reject_number(key, value, "an unsigned 64-bit integer");
  return value.get<std::uint64_t>();
}

void check_no_zero_byte(std::string_view text) {
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    throw JsonError("not JSON: byte " + std::to_string(zero + 1) + " is zero");
}

std::string shortened(std::string_view text) {
  constexpr std::size_t longest = 240, head = 120, tail = 100;
  if (text.size() <= longest) return std::string(text);
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t end = head, begin = text.size() - tail;
  while (end > 0 && continues(end)) --end;
  while (begin < text.size() && continues(begin)) ++begin;
  return std::string(text.substr(0, end)) + "..." + std::string(text.substr(begin));
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its bracket.
std::string json_fault(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t bracket = text.find("] ");
  const std::string plain = shortened(bracket == text.npos ? text : text.substr(bracket + 2));
  return error.id == number_overflow ? "a number is beyond float64: " + plain
                                     : "not JSON: " + plain;
}

}  // namespace tapehead::io
