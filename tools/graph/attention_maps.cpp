#include <tapehead/core/error.h>
#include <tapehead/graph/attention_maps.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/page.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tapehead::graph {
namespace {

constexpr std::string_view maps_page =
#include "attention_maps.html.inc"
    ;

// `text` is written as a JSON string.
void append_string(std::string& out, const std::string& text) {
  out += json_line(nlohmann::json(text));
}

void append_weight(std::string& out, double weight) {
  if (!std::isfinite(weight)) {
    out += "null";
    return;
  }
  std::array<char, 32> text;
  const double rounded = std::round(weight * 1e6) / 1e6;
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), rounded).ptr);
}

// "[", the items with commas between them, "]".
template <class Append>
void append_list(std::string& out, std::size_t size, std::string_view separator, Append&& append) {
  out += '[';
  for (std::size_t i = 0; i < size; ++i) {
    if (i > 0) out += separator;
    append(i);
  }
  out += ']';
}

void append_heads(std::string& out, const Tensor& weights) {
  const std::vector<double> values = weights.to_vector();
  const auto heads = static_cast<std::size_t>(weights.size(0));
  const auto queries = static_cast<std::size_t>(weights.size(1));
  const auto keys = static_cast<std::size_t>(weights.size(2));
  append_list(out, heads, ",\n", [&](std::size_t h) {
    append_list(out, queries, ",", [&](std::size_t i) {
      append_list(out, keys, ",",
                  [&](std::size_t j) { append_weight(out, values[(h * queries + i) * keys + j]); });
    });
  });
}

// What the mask hides from the sequence: (heads, queries, keys), one head when they share it.
Tensor hidden_of(const nn::AttentionMap& map, std::int64_t sequence) {
  const bool is_shared = map.hidden.rank() < 3 || map.hidden.size(-3) == 1;
  const Tensor hidden = select(expand(map.hidden, map.weights.shape()), 0, sequence);
  return is_shared ? narrow(hidden, 0, 0, 1) : hidden;
}

void append_hidden(std::string& out, const Tensor& hidden) {
  const std::vector<bool> cells = hidden.to_vector<bool>();
  const auto queries = static_cast<std::size_t>(hidden.size(1));
  const auto keys = static_cast<std::size_t>(hidden.size(2));
  append_list(out, static_cast<std::size_t>(hidden.size(0)), ",\n", [&](std::size_t h) {
    append_list(out, queries, ",", [&](std::size_t i) {
      out += '"';
      for (std::size_t j = 0; j < keys; ++j) out += cells[(h * queries + i) * keys + j] ? 'x' : '.';
      out += '"';
    });
  });
}

Tensor weights_of(const nn::AttentionMap& map, std::int64_t sequence) {
  if (map.weights.rank() != 4)
    throw ShapeError("attention_maps",
                     "weights " + describe(map.weights) + " must be (batch, heads, queries, keys)");
  if (sequence < 0 || sequence >= map.weights.size(0))
    throw IndexError("attention_maps", "sequence " + std::to_string(sequence) + " of weights " +
                                           describe(map.weights));
  return select(map.weights, 0, sequence);
}

}  // namespace

std::string attention_to_json(std::span<const nn::AttentionMap> maps,
                              std::span<const std::string> tokens, std::int64_t sequence) {
  std::string out = "{\"format\": \"tapehead-attention/1\",\n\"maps\": ";
  append_list(out, maps.size(), ",\n", [&](std::size_t i) {
    out += "{\"heads\": ";
    append_heads(out, weights_of(maps[i], sequence));
    if (maps[i].hidden.defined()) {
      out += ", \"hidden\": ";
      append_hidden(out, hidden_of(maps[i], sequence));
    }
    out += ", \"module\": ";
    append_string(out, maps[i].module);
    out += '}';
  });
  out += ",\n\"tokens\": ";
  append_list(out, tokens.size(), ", ", [&](std::size_t i) { append_string(out, tokens[i]); });
  return out + "}\n";
}

std::string attention_to_html(std::span<const nn::AttentionMap> maps,
                              std::span<const std::string> tokens, std::int64_t sequence) {
  return with_data(maps_page, script_data(attention_to_json(maps, tokens, sequence)));
}

}  // namespace tapehead::graph
