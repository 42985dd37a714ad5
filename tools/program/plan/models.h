// The models that `tapehead plan` knows by name, those that a file describes, and amounts of memory
// as text.
#pragma once

#include <tapehead/nn/gpt.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::program {

/// "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl" (Radford et al. 2019) and "7b", a model of seven
/// billion parameters with a context of 32768.
std::vector<std::string> plan_model_names();

/// The model of a name, or of a file whose name ends with ".json". ValueError for another name, and
/// as model_from_json; IoError.
nn::GptOptions plan_model(const std::string& name_or_file);

/// A model from a JSON object with the whole numbers layers, heads, dim, context, vocabulary, and,
/// if they are not 0 and false, the number dropout and the truth value tied_output. ValueError says
/// which field is missing, unknown or of another type; `source` opens the text. Whether the sizes
/// can be is not looked at.
nn::GptOptions model_from_json(std::string_view text, const std::string& source);

/// Bytes from "24GiB", "1.5 TiB", "80GB" or "1000000": KiB, MiB, GiB, TiB, PiB are powers of 1024,
/// KB, MB, GB, TB, PB of 1000. ValueError.
std::int64_t parse_memory(std::string_view text);

}  // namespace tapehead::program
