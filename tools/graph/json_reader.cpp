// The parser hands over one row at a time and forgets it, so memory stays linear in the graph.
// Nothing in the file is trusted: rows are checked as they come, and what one row says of another
// at the end.
#include <tapehead/core/error.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/validate.h>
#include <tapehead/nn/atomic_file.h>

#include <array>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace tapehead::graph {
namespace {

using nlohmann::json;

std::int64_t integer_of(std::string_view key, const json& value, const std::string& where) {
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!value.is_number_integer() || too_large)
    throw ValueError("read_json", where + ": " + std::string(key) + " is not a 64-bit integer");
  return value.get<std::int64_t>();
}

/// One object of the file, read key by key.
class Row {
 public:
  Row(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const json& operator[](const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    ++read_;
    return *found;
  }

  bool has(const char* key) const { return object_.contains(key); }

  std::int64_t integer(const char* key) { return to_integer(key, (*this)[key]); }

  std::int64_t integer_or_null(const char* key, std::int64_t null_means) {
    const json& value = (*this)[key];
    return value.is_null() ? null_means : to_integer(key, value);
  }

  std::vector<std::int64_t> integers(const char* key) {
    const json& list = (*this)[key];
    if (!list.is_array()) fail(key, "is not a list");
    std::vector<std::int64_t> result;
    result.reserve(list.size());
    for (const json& entry : list) result.push_back(to_integer(key, entry));
    return result;
  }

  Dims dims(const char* key) {
    const std::vector<std::int64_t> list = integers(key);
    if (list.size() > Dims::max_rank) fail(key, "has more than 16 entries");
    return Dims(std::span<const std::int64_t>(list));
  }

  std::string text(const char* key) {
    const json& value = (*this)[key];
    if (!value.is_string()) fail(key, "is not a string");
    return value.get<std::string>();
  }

  bool truth(const char* key) {
    const json& value = (*this)[key];
    if (!value.is_boolean()) fail(key, "is not true or false");
    return value.get<bool>();
  }

  /// One of `all`, found by the name that to_string gives it.
  template <class Enum, std::size_t N>
  Enum one_of(const char* key, const std::array<Enum, N>& all) {
    const std::string name = text(key);
    for (const Enum candidate : all)
      if (to_string(candidate) == name) return candidate;
    fail(key, "is not one of the names allowed: " + json(name).dump());
  }

  /// Call it last: what nobody asked for does not belong here.
  void finish() {
    if (read_ != object_.size()) fail("the row", "has a key that the format does not know");
  }

  [[noreturn]] void fail(std::string_view key, std::string_view what) const {
    throw ValueError("read_json", where_ + ": " + std::string(key) + " " + std::string(what));
  }

 private:
  std::int64_t to_integer(const char* key, const json& value) const {
    return integer_of(key, value, where_);
  }

  const json& object_;
  std::string where_;
  std::size_t read_ = 0;
};

double to_floating(Row& row, const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  row.fail("value", "is not a number");
}

Graph::Attribute read_attribute(const json& object, const std::string& where) {
  if (!object.is_object()) throw ValueError("read_json", where + ": an attribute is not an object");
  Row row(object, where);
  Graph::Attribute attribute;
  attribute.name = row.text("name");
  const std::string type = row.text("type");
  if (type == "bool") attribute.value = row.truth("value");
  else if (type == "int") attribute.value = row.integer("value");
  else if (type == "string") attribute.value = row.text("value");
  else if (type == "float") attribute.value = to_floating(row, row["value"]);
  else row.fail("type", "is not one of bool, int, float, string");
  row.finish();
  return attribute;
}

void read_row(Row& row, const std::string& where, Graph::Node& node) {
  const json& attributes = row["attributes"];
  if (!attributes.is_array()) row.fail("attributes", "is not a list");
  for (const json& attribute : attributes)
    node.attributes.push_back(read_attribute(attribute, where));
  node.operation = row.text("operation");
  node.module = row.text("module");
  node.inputs = row.integers("inputs");
  node.output = row.integer("output");
  node.flops = row.integer("flops");
  if (row.has("planned")) node.planned = row.truth("planned");
  if (row.has("recomputed")) node.recomputed = row.truth("recomputed");
}

void read_row(Row& row, const std::string&, Graph::Packing& packing) {
  packing.how = row.text("how");
  packing.bytes = row.integer("bytes");
}

void read_row(Row& row, const std::string&, Graph::SavedSlot& slot) {
  slot.node = row.integer("node");
  slot.slot = row.text("slot");
  slot.reason = row.text("reason");
  slot.for_inputs = row.integers("for_inputs");
  slot.value = row.integer("value");
  if (row.has("packing")) slot.packing = row.integer("packing");
}

void read_row(Row& row, const std::string&, Graph::Storage& storage) {
  static constexpr std::array categories = {
      Category::transient, Category::parameter,       Category::input,    Category::saved,
      Category::gradient,  Category::optimizer_state, Category::constant,
  };
  storage.bytes = row.integer("bytes");
  storage.category = row.one_of("category", categories);
  if (row.has("operation")) storage.operation = row.text("operation");
}

void read_row(Row& row, const std::string&, Graph::Step& step) {
  using Phase = Graph::Phase;
  static constexpr std::array phases = {Phase::forward, Phase::backward, Phase::update,
                                        Phase::other};
  step.phase = row.one_of("phase", phases);
  step.operation = row.text("operation");
  step.module = row.text("module");
  step.node = row.integer_or_null("node", -1);
}

void read_row(Row& row, const std::string&, Graph::Event& event) {
  event.step = row.integer("step");
  event.storage = row.integer("storage");
  event.birth = row.truth("birth");
}

void read_row(Row& row, const std::string&, Graph::Value& value) {
  static constexpr std::array dtypes = {DType::f32, DType::f64, DType::bf16,
                                        DType::f16, DType::i64, DType::boolean};
  value.name = row.text("name");
  value.dtype = row.one_of("dtype", dtypes);
  value.shape = row.dims("shape");
  value.strides = row.dims("strides");
  value.offset = row.integer("offset");
  value.storage = row.integer("storage");
  value.producer = row.integer_or_null("producer", -1);
  value.leaf = row.truth("leaf");
}

/// Turns the parser's events into rows. The depths are the parser's: 0 the file, 1 its tables, 2
/// the rows of a table.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  bool on_event(int depth, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (depth == 0 && event != Event::object_start && event != Event::object_end)
      fail("the file is not an object");
    if (depth == 1 && event == Event::key) begin_table(parsed.get_ref<const std::string&>());
    else if (depth == 1) check_table(event, parsed);
    else if (depth == 2 && event == Event::object_end) return add_row(parsed);
    else if (depth == 2 && event != Event::object_start) fail(table_ + " is not a list of objects");
    return true;
  }

  Graph finish() {
    for (const Table& table : tables)
      if (!table.optional && !table.seen(*this)) fail(std::string(table.name) + " is missing");
    validate(graph_, source_);
    return std::move(graph_);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError("read_json", source_ + ": " + what);
  }

 private:
  struct Table {
    std::string_view name;
    std::size_t bit;
    void (Reader::*add)(const json&);
    bool optional = false;
    bool seen(const Reader& reader) const { return reader.seen_ >> bit & 1u; }
  };
  static const std::array<Table, 9> tables;

  void begin_table(const std::string& name) {
    for (const Table& table : tables) {
      if (table.name != name) continue;
      if (table.seen(*this)) fail(name + " stands there twice");
      seen_ |= 1u << table.bit;
      table_ = name;
      add_ = table.add;
      rows_ = 0;
      return;
    }
    fail("the key " + json(name).dump() + " is not one that the format knows");
  }

  void check_table(json::parse_event_t event, const json& parsed) {
    if (add_) {
      using Event = json::parse_event_t;
      if (event != Event::array_start && event != Event::array_end) fail(table_ + " is not a list");
    } else if (table_ == "live_before") {
      graph_.live_before = integer_of("live_before", parsed, source_);
    } else if (event != json::parse_event_t::value || parsed != json(format_name)) {
      fail("the format is not " + std::string(format_name));
    }
  }

  bool add_row(const json& object) {
    (this->*add_)(object);
    ++rows_;
    return false;  // the parser may forget it
  }

  template <auto Rows>
  void add(const json& object) {
    const std::string where = source_ + ": row " + std::to_string(rows_) + " of " + table_;
    Row row(object, where);
    if (row.integer("id") != static_cast<std::int64_t>(rows_))
      row.fail("id", "is not the row's number");
    read_row(row, where, (graph_.*Rows).emplace_back());
    row.finish();
  }

  Graph graph_;
  std::string source_;
  std::string table_;
  void (Reader::*add_)(const json&) = nullptr;
  std::size_t rows_ = 0;
  unsigned seen_ = 0;
};

const std::array<Reader::Table, 9> Reader::tables = {{
    {"format", 0, nullptr},
    {"nodes", 1, &Reader::add<&Graph::nodes>},
    {"saved", 2, &Reader::add<&Graph::saved>},
    {"storages", 3, &Reader::add<&Graph::storages>},
    {"values", 4, &Reader::add<&Graph::values>},
    {"packings", 5, &Reader::add<&Graph::packings>, true},
    {"steps", 6, &Reader::add<&Graph::steps>, true},
    {"events", 7, &Reader::add<&Graph::events>, true},
    {"live_before", 8, nullptr, true},
}};

// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its bracket.
std::string_view plain_message(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t bracket = text.find("] ");
  return bracket == std::string_view::npos ? text : text.substr(bracket + 2);
}

}  // namespace

Graph from_json(std::string_view text, std::string_view source) {
  Reader reader(source);
  try {
    // What comes back is what on_event left over: empty tables.
    [[maybe_unused]] const json rest =
        json::parse(text, [&](int depth, json::parse_event_t event, json& parsed) {
          return reader.on_event(depth, event, parsed);
        });
  } catch (const json::exception& error) {
    reader.fail("not JSON: " + std::string(plain_message(error)));
  }
  return reader.finish();
}

Graph read_json(std::istream& in) {
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) throw IoError("read_json", "the stream cannot be read");
  return from_json(text, "stream");
}

Graph read_json(const std::filesystem::path& path) {
  return from_json(nn::read_file("read_json", path), path.string());
}

}  // namespace tapehead::graph
