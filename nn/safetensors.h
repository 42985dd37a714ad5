// The safetensors format: named tensors and string metadata in one file that cannot run code.
// An 8-byte little-endian length, a JSON header of that length, and the tensors' bytes, row-major
// and little-endian (https://github.com/huggingface/safetensors#format).
#pragma once

#include <tapehead/nn/named_tensor.h>

#include <filesystem>
#include <map>

namespace tapehead::nn {

/// Strings by name, which a file may carry.
using Metadata = std::map<std::string, std::string>;

/// Writes the file atomically: a reader sees the old file or the new one, whole. Any layout and
/// dtype. The same tensors give the same bytes.
/// IoError: the file cannot be written; the old one stays. ValueError: two tensors have one name, a
/// name is "__metadata__", or a string is not UTF-8. StateError: a tensor without values (dry run).
void save_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                      const Metadata& metadata = {});

/// What a file holds.
struct Safetensors {
  StateDict tensors;  ///< in the order of their bytes in the file
  Metadata metadata;  ///< of the header
};

/// Reads a whole file. In a dry run the tensors have their shapes, and no values.
/// IoError: the file cannot be read. ValueError: it is not a well-formed safetensors file; whatever
/// it claims, no more is allocated than the file is long. DTypeError: an element type that this
/// library does not hold, named with its tensor.
Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace tapehead::nn
