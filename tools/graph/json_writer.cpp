// Written by hand, row by row, so that memory and time stay linear in the file and no tree of it is
// ever held.
#include <tapehead/core/error.h>
#include <tapehead/graph/internal/json_output.h>
#include <tapehead/graph/internal/not_finite.h>
#include <tapehead/graph/json.h>
#include <tapehead/nn/atomic_file.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

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
      number(graph.live_before);
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
      text_ += i == 0 ? "\n" : ",\n";
      row(all[i], i);
    }
    text_ += all.empty() ? "]" : "\n]";
  }

  void row(const Graph::Node& node, std::size_t id) {
    text_ += "{\"attributes\": [";
    for (const Graph::Attribute& attribute : node.attributes) {
      if (&attribute != node.attributes.data()) text_ += ", ";
      write_attribute(attribute);
    }
    text_ += ']';
    if (!node.donatable.empty()) {
      text_ += ", \"donatable\": ";
      numbers(node.donatable);
    }
    text_ += ", \"flops\": ";
    number(node.flops);
    write_id(id);
    text_ += ", \"inputs\": ";
    numbers(node.inputs);
    text_ += ", \"module\": ";
    string(node.module);
    text_ += ", \"operation\": ";
    string(node.operation);
    text_ += ", \"output\": ";
    number(node.output);
    if (node.planned) text_ += ", \"planned\": true";
    if (node.recomputed) text_ += ", \"recomputed\": true";
    text_ += '}';
  }

  void row(const Graph::Packing& packing, std::size_t id) {
    text_ += "{\"bytes\": ";
    number(packing.bytes);
    text_ += ", \"how\": ";
    string(packing.how);
    write_id(id);
    text_ += '}';
  }

  void row(const Graph::SavedSlot& slot, std::size_t id) {
    text_ += "{\"for_inputs\": ";
    numbers(slot.for_inputs);
    write_id(id);
    text_ += ", \"node\": ";
    number(slot.node);
    if (slot.packing >= 0) {
      text_ += ", \"packing\": ";
      number(slot.packing);
    }
    text_ += ", \"reason\": ";
    string(slot.reason);
    text_ += ", \"slot\": ";
    string(slot.slot);
    text_ += ", \"value\": ";
    number(slot.value);
    text_ += '}';
  }

  void row(const Graph::Storage& storage, std::size_t id) {
    text_ += "{\"bytes\": ";
    number(storage.bytes);
    text_ += ", \"category\": ";
    string(to_string(storage.category));
    write_id(id);
    if (!storage.operation.empty()) {
      text_ += ", \"operation\": ";
      string(storage.operation);
    }
    text_ += '}';
  }

  void row(const Graph::Step& step, std::size_t id) {
    text_ += "{\"id\": ";
    number(static_cast<std::int64_t>(id));
    text_ += ", \"module\": ";
    string(step.module);
    text_ += ", \"node\": ";
    number_or_null(step.node);
    text_ += ", \"operation\": ";
    string(step.operation);
    text_ += ", \"phase\": ";
    string(to_string(step.phase));
    text_ += '}';
  }

  void row(const Graph::Event& event, std::size_t id) {
    text_ += event.birth ? "{\"birth\": true" : "{\"birth\": false";
    write_id(id);
    text_ += ", \"step\": ";
    number(event.step);
    text_ += ", \"storage\": ";
    number(event.storage);
    text_ += '}';
  }

  void row(const Graph::Value& value, std::size_t id) {
    text_ += "{\"dtype\": ";
    string(to_string(value.dtype));
    write_id(id);
    text_ += value.leaf ? ", \"leaf\": true" : ", \"leaf\": false";
    text_ += ", \"name\": ";
    string(value.name);
    text_ += ", \"offset\": ";
    number(value.offset);
    text_ += ", \"producer\": ";
    number_or_null(value.producer);
    text_ += ", \"shape\": ";
    numbers(value.shape);
    text_ += ", \"storage\": ";
    number(value.storage);
    text_ += ", \"strides\": ";
    numbers(value.strides);
    text_ += '}';
  }

  // The type is written out: in JSON 1 and 1.0 are the same number, and "inf" may be a string.
  void write_attribute(const Graph::Attribute& attribute) {
    text_ += "{\"name\": ";
    string(attribute.name);
    if (const auto* truth = std::get_if<bool>(&attribute.value)) {
      text_ += ", \"type\": \"bool\", \"value\": ";
      text_ += *truth ? "true" : "false";
    } else if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
      text_ += ", \"type\": \"int\", \"value\": ";
      number(*integer);
    } else if (const auto* real = std::get_if<double>(&attribute.value)) {
      text_ += ", \"type\": \"float\", \"value\": ";
      floating(*real);
    } else {
      text_ += ", \"type\": \"string\", \"value\": ";
      string(std::get<std::string>(attribute.value));
    }
    text_ += '}';
  }

  void write_id(std::size_t id) {
    text_ += ", \"id\": ";
    number(static_cast<std::int64_t>(id));
  }

  void number_or_null(std::int64_t id) {
    if (id < 0) text_ += "null";
    else number(id);
  }

  void number(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, end);
  }

  template <class List>
  void numbers(const List& list) {
    text_ += '[';
    bool first = true;
    for (const std::int64_t value : list) {
      if (!std::exchange(first, false)) text_ += ", ";
      number(value);
    }
    text_ += ']';
  }

  // The shortest digits that read back as the same bits. A point is added where there is none, for
  // a reader would take "-0" for an integer and lose the sign.
  void floating(double value) {
    if (!std::isfinite(value)) return string(name_of_not_finite(value));
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    const std::string_view written(digits, static_cast<std::size_t>(end - digits));
    text_ += written;
    if (written.find_first_of(".e") == std::string_view::npos) text_ += ".0";
  }

  void string(std::string_view value) {
    if (is_plain(value)) {
      text_ += '"';
      text_ += value;
      text_ += '"';
    } else {
      using nlohmann::json;
      text_ += json_line(json(value));
    }
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
  nn::AtomicFile file("write_json", path);
  file.write(to_json(graph));
  file.commit();
}

}  // namespace tapehead::graph
