// Written by hand, row by row, so that memory and time stay linear in the file and no tree of it is
// ever held.
#include <tapehead/core/error.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/not_finite.h>
#include <tapehead/graph/json.h>
#include <tapehead/nn/io/atomic_file.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>

namespace tapehead::graph {
namespace {

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

class Writer {
 public:
  std::string write(const Graph& graph) {
    text_ = "{\"format\": \"" + std::string(format_name) + "\",\n";
    if (!graph.steps.empty()) {
      rows("events", graph.events);
      text_ += ",\n\"live_before\": ";
      put(graph.live_before);
      text_ += ",\n";
    }
    rows("nodes", graph.nodes);
    text_ += ",\n";
    if (!graph.packings.empty()) {
      rows("packings", graph.packings);
      text_ += ",\n";
    }
    rows("saved", graph.saved);
    text_ += ",\n";
    if (!graph.steps.empty()) {
      rows("steps", graph.steps);
      text_ += ",\n";
    }
    rows("storages", graph.storages);
    text_ += ",\n";
    rows("values", graph.values);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  template <class Row>
  void rows(std::string_view name, const std::vector<Row>& all) {
    text_ += '"';
    text_ += name;
    text_ += "\": [";
    for (std::size_t i = 0; i < all.size(); ++i) {
      text_ += i == 0 ? "\n{" : ",\n{";
      row(all[i], static_cast<std::int64_t>(i));
      text_ += '}';
    }
    text_ += all.empty() ? "]" : "\n]";
  }

  // ---- rows: the keys in their order ----

  void row(const Graph::Node& node, std::int64_t id) {
    attributes(node.attributes);
    if (!node.donatable.empty()) field("donatable", node.donatable);
    field("flops", node.flops);
    field("id", id);
    field("inputs", node.inputs);
    field("module", node.module);
    field("operation", node.operation);
    field("output", node.output);
    if (node.planned) truth("planned", true);
    if (node.recomputed) truth("recomputed", true);
  }

  void row(const Graph::Packing& packing, std::int64_t id) {
    field("bytes", packing.bytes);
    field("how", packing.how);
    field("id", id);
  }

  void row(const Graph::SavedSlot& slot, std::int64_t id) {
    field("for_inputs", slot.for_inputs);
    field("id", id);
    field("node", slot.node);
    if (slot.packing >= 0) field("packing", slot.packing);
    field("reason", slot.reason);
    field("slot", slot.slot);
    field("value", slot.value);
  }

  void row(const Graph::Storage& storage, std::int64_t id) {
    field("bytes", storage.bytes);
    field("category", to_string(storage.category));
    field("id", id);
    if (!storage.operation.empty()) field("operation", storage.operation);
  }

  void row(const Graph::Step& step, std::int64_t id) {
    field("id", id);
    field("module", step.module);
    id_or_null("node", step.node);
    field("operation", step.operation);
    field("phase", to_string(step.phase));
  }

  void row(const Graph::Event& event, std::int64_t id) {
    truth("birth", event.birth);
    field("id", id);
    field("step", event.step);
    field("storage", event.storage);
  }

  void row(const Graph::Value& value, std::int64_t id) {
    field("dtype", to_string(value.dtype));
    field("id", id);
    truth("leaf", value.leaf);
    field("name", value.name);
    field("offset", value.offset);
    id_or_null("producer", value.producer);
    field("shape", value.shape);
    field("storage", value.storage);
    field("strides", value.strides);
  }

  void attributes(const std::vector<Graph::Attribute>& all) {
    key("attributes");
    text_ += '[';
    for (const Graph::Attribute& attribute : all) {
      text_ += &attribute == all.data() ? "{" : ", {";
      write(attribute);
      text_ += '}';
    }
    text_ += ']';
  }

  // The type is written out: in JSON 1 and 1.0 are the same number, and "inf" may be a string.
  void write(const Graph::Attribute& attribute) {
    field("name", attribute.name);
    if (const auto* is_true = std::get_if<bool>(&attribute.value)) {
      field("type", "bool");
      truth("value", *is_true);
    } else if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
      field("type", "int");
      field("value", *integer);
    } else if (const auto* real = std::get_if<double>(&attribute.value)) {
      field("type", "float");
      key("value");
      put_floating(*real);
    } else {
      field("type", "string");
      field("value", std::get<std::string>(attribute.value));
    }
  }

  // ---- keys and values ----

  void key(std::string_view name) {
    text_ += text_.back() == '{' ? "\"" : ", \"";
    text_ += name;
    text_ += "\": ";
  }

  void field(std::string_view name, std::int64_t number) {
    key(name);
    put(number);
  }
  void field(std::string_view name, std::string_view text) {
    key(name);
    put(text);
  }
  void field(std::string_view name, std::span<const std::int64_t> numbers) {
    key(name);
    text_ += '[';
    for (const std::int64_t& number : numbers) {
      if (&number != numbers.data()) text_ += ", ";
      put(number);
    }
    text_ += ']';
  }
  void truth(std::string_view name, bool value) {
    key(name);
    text_ += value ? "true" : "false";
  }
  void id_or_null(std::string_view name, std::int64_t id) {
    key(name);
    if (id < 0) text_ += "null";
    else put(id);
  }

  void put(std::int64_t number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text_.append(digits, end);
  }

  void put(std::string_view text) {
    if (is_plain(text)) {
      text_ += '"';
      text_ += text;
      text_ += '"';
    } else {
      using nlohmann::json;
      text_ += json_line(json(text));
    }
  }

  // The shortest digits that read back as the same bits. A point is added where there is none, for
  // a reader would take "-0" for an integer and lose the sign.
  void put_floating(double value) {
    if (!std::isfinite(value)) return put(name_of_not_finite(value));
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    const std::string_view written(digits, static_cast<std::size_t>(end - digits));
    text_ += written;
    if (written.find_first_of(".e") == std::string_view::npos) text_ += ".0";
  }

  std::string text_;
};

}  // namespace

std::string to_json(const Graph& graph) { return Writer().write(graph); }

void write_json(const Graph& graph, std::ostream& out) {
  const std::string text = to_json(graph);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.flush();
  if (!out) throw IoError("write_json", "the stream cannot be written");
}

void write_json(const Graph& graph, const std::filesystem::path& path) {
  io::AtomicFile file("write_json", path);
  file.write(to_json(graph));
  file.commit();
}

}  // namespace tapehead::graph
