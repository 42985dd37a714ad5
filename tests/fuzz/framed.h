// Safetensors files of texts that a fuzzer can change piece by piece. In the file itself the length
// of the header stands before it, and a description is JSON in a string of the header's: nearly
// every change would break the frame, and nothing behind it would be reached.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tapehead::tests {

/// The bytes up to the first zero byte, which go from the front of `rest` with it.
inline std::string_view take_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// A file of this header and these bytes of data.
inline std::string framed(std::string_view header, std::string_view data) {
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{header.size()});
  std::string file(length.begin(), length.end());
  file += header;
  file += data;
  return file;
}

/// `header`, an object, with this metadata as its first entry.
inline std::string with_metadata(std::string_view header, std::string_view format,
                                 std::string_view description) {
  const nlohmann::json metadata = {{"format", format}, {"description", description}};
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  std::string text = "{\"__metadata__\":" + metadata.dump(-1, ' ', false, replace);
  if (header.starts_with("{\"")) text += ",";
  return text.append(header.substr(header.starts_with("{") ? 1 : 0));
}

}  // namespace tapehead::tests
