// What fuzz targets share: bounds that a target puts itself to, and a folder in memory.
//
// A target reads its input as a file of one kind. The library's errors are what a bad file
// deserves; any other exception, a signal, a sanitizer's report, a hang or too much memory is a
// finding. tools/fuzz builds and runs the targets.
#pragma once

#include <tapehead/core/error.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/parallel.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "../support/folder.h"

/// libFuzzer calls it once for each input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tapehead::tests {

/// Inputs are small, and so is what may be made of them; the rest is refused as an allocation that
/// failed.
inline void bound_resources() {
  set_memory_limit(std::int64_t{64} << 20);
  set_num_threads(1);
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// One folder for all inputs, where tools/fuzz keeps temporary files: in memory.
inline const Folder& fuzz_folder() {
  static const Folder folder;
  return folder;
}

/// Writes a file of that folder.
inline void write_file(const char* name, std::string_view content) {
  std::ofstream(fuzz_folder().file(name), std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

}  // namespace tapehead::tests
