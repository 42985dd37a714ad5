#include "models.h"

#include <tapehead/graph/internal/byte_units.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/io/strict_json.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "../json_object.h"

namespace tapehead::program {
namespace {

using nlohmann::json;

struct Named {
  const char* name;
  nn::GptOptions options;
};

nn::GptOptions gpt2(std::int64_t layers, std::int64_t heads, std::int64_t dim) {
  return {.vocab_size = 50257,
          .context = 1024,
          .layers = layers,
          .heads = heads,
          .dim = dim,
          .tied_output = true,
          .activation = nn::Activation::gelu_tanh};
}

std::vector<Named> named_models() {
  return {
      {"gpt2", gpt2(12, 12, 768)},
      {"gpt2-medium", gpt2(24, 16, 1024)},
      {"gpt2-large", gpt2(36, 20, 1280)},
      {"gpt2-xl", gpt2(48, 25, 1600)},
      {"7b", {.vocab_size = 32000, .context = 32768, .layers = 32, .heads = 32, .dim = 4096}},
  };
}

// ---- files -------------------------------------------------------------------------------------

std::int64_t size(JsonObject& model, const char* name) {
  const std::int64_t size = model.integer(name);
  if (size <= 0) model.fail("\"" + std::string(name) + "\" must be positive");
  return size;
}

nn::GptOptions read_model(const json& value) {
  JsonObject model(value);
  nn::GptOptions options;
  options.layers = size(model, "layers");
  options.heads = size(model, "heads");
  options.dim = size(model, "dim");
  options.context = size(model, "context");
  options.vocab_size = size(model, "vocabulary");
  if (model.has("dropout")) options.dropout = model.number("dropout");
  if (model.has("tied_output")) options.tied_output = model.truth("tied_output");
  model.finish();
  if (options.dim % options.heads != 0) model.fail("\"dim\" must be a multiple of \"heads\"");
  return options;
}

}  // namespace

std::vector<std::string> plan_model_names() {
  std::vector<std::string> names;
  for (const Named& model : named_models()) names.push_back(model.name);
  return names;
}

nn::GptOptions plan_model(const std::string& name_or_file) {
  for (const Named& model : named_models())
    if (model.name == name_or_file) return model.options;
  if (name_or_file.ends_with(".json"))
    return model_from_json(io::read_file("plan", name_or_file), name_or_file);
  std::string names;
  for (const std::string& name : plan_model_names()) names += name + ", ";
  throw ValueError("plan", "--model " + name_or_file + ": it must be one of " + names +
                               "or a file whose name ends with .json");
}

nn::GptOptions model_from_json(std::string_view text, const std::string& source) {
  try {
    return read_model(io::parse_json(text));
  } catch (const io::JsonError& error) {
    throw ValueError("plan", source + ": " + error.what());
  }
}

std::int64_t parse_memory(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(stop - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const std::int64_t unit_bytes = unit.empty() ? 1 : graph::bytes_of_unit(unit);
  const double bytes = number * static_cast<double>(unit_bytes);
  if (error != std::errc() || !(bytes >= 1 && bytes < 0x1p63))
    throw ValueError("plan", "--memory " + std::string(text) +
                                 ": it must be an amount such as 24GiB, 80GB or 1000000");
  return static_cast<std::int64_t>(bytes);
}

}  // namespace tapehead::program
