// The parser calls back for each token, and one row is held at a time, so memory stays linear in
// the graph and no tree of the file is ever made. Nothing in the file is trusted: rows are checked
// as they come, and what one row says of another at the end. Nothing recurs, however deep the file
// is.
#include <tapehead/core/error.h>
#include <tapehead/graph/internal/json_row.h>
#include <tapehead/graph/internal/json_rows.h>
#include <tapehead/graph/json.h>
#include <tapehead/graph/validate.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/io/strict_json.h>

#include <array>
#include <istream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace tapehead::graph {
namespace {

using nlohmann::json;
using Kind = JsonCell::Kind;

// ---- the file ----------------------------------------------------------------------------------

/// What the parser calls. Levels: 0 outside the file's object, 1 in it, 2 in a table, 3 in a row, 4
/// in a list in a row, 5 in an attribute in such a list. What lies deeper is skipped, and the cell
/// that it lies in says so.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  bool null() {
    return scalar([](JsonCell& cell) { cell.kind = Kind::null; });
  }
  bool boolean(bool value) {
    return scalar([&](JsonCell& cell) {
      cell.kind = Kind::truth;
      cell.truth = value;
    });
  }
  bool number_integer(std::int64_t value) {
    if (level_ == 4 && skipped_ == 0 && row_.last().takes_integers()) {
      row_.last().integers.push_back(value);
      return true;
    }
    return scalar([&](JsonCell& cell) {
      cell.kind = Kind::integer;
      cell.integer = value;
    });
  }
  bool number_unsigned(std::uint64_t value) {
    if (value <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return number_integer(static_cast<std::int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string&) {
    return scalar([&](JsonCell& cell) {
      cell.kind = Kind::real;
      cell.real = value;
    });
  }
  bool string(std::string& value) {
    return scalar([&](JsonCell& cell) {
      cell.kind = Kind::text;
      cell.text.swap(value);
    });
  }
  bool binary(json::binary_t&) {
    return scalar([](JsonCell& cell) { cell.kind = Kind::other; });
  }

  bool start_object(std::size_t) {
    if (skipped_ > 0 || level_ == 1 || level_ == 3 || level_ == 5) return skip(Kind::other);
    if (level_ == 4 && !row_.last().takes_attributes()) return skip(Kind::mixed);
    ++level_;
    if (level_ == 3) row_.clear();
    if (level_ == 5) attribute_.clear();
    return true;
  }
  bool key(std::string& name) {
    if (skipped_ > 0) return true;
    if (level_ == 1) begin_table(name);
    else (level_ == 3 ? row_ : attribute_).add(name);
    return true;
  }
  bool end_object() {
    if (skipped_ > 0) return end_skipped();
    if (level_ == 3) add_row();
    if (level_ == 5) add_attribute();
    --level_;
    return true;
  }
  bool start_array(std::size_t) {
    const bool begins_table = level_ == 1 && add_;
    if (skipped_ > 0 || !(begins_table || level_ == 3))
      return skip(level_ == 4 ? Kind::mixed : Kind::other);
    if (level_ == 3) row_.last().begin_list();
    ++level_;
    return true;
  }
  bool end_array() {
    if (skipped_ > 0) return end_skipped();
    --level_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    fail(where() + io::json_fault(error));
  }

  Graph finish() {
    for (const Table& table : tables)
      if (!table.optional && !table.seen(*this)) fail(std::string(table.name) + " is missing");
    validate(graph_, source_);
    return std::move(graph_);
  }

 private:
  struct Table {
    std::string_view name;
    std::size_t bit;
    void (Reader::*add)();
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
    fail("the key " + io::shortened(json(name).dump()) + " is not one that the format knows");
  }

  // A value that is no list or object, or one that is skipped, where it stands.
  template <class Fill>
  bool scalar(Fill&& fill) {
    if (skipped_ > 0) return true;
    switch (level_) {
      case 0: fail("the file is not an object");
      case 1: {
        JsonCell cell;
        fill(cell);
        set_figure(cell);
        break;
      }
      case 2: fail(table_ + " is not a list of objects");
      case 3: fill(row_.last()); break;
      case 4: row_.last().kind = Kind::mixed; break;
      default: fill(attribute_.last());
    }
    return true;
  }

  bool skip(Kind kind) {
    if (skipped_ == 0) scalar([&](JsonCell& cell) { cell.kind = kind; });
    ++skipped_;
    return true;
  }
  bool end_skipped() {
    --skipped_;
    return true;
  }

  // What stands in the file's object and is no table.
  void set_figure(const JsonCell& cell) {
    if (add_) fail(table_ + " is not a list");
    if (table_ == "live_before") {
      if (cell.kind != Kind::integer) fail("live_before is not a 64-bit integer");
      graph_.live_before = cell.integer;
    } else if (cell.kind != Kind::text || cell.text != format_name) {
      fail("the format is not " + std::string(format_name));
    }
  }

  void add_row() {
    row_.begin(source_, table_, rows_);
    (this->*add_)();
    ++rows_;
  }

  void add_attribute() {
    attribute_.begin(source_, table_, rows_);
    row_.last().attributes.push_back(read_attribute(attribute_));
  }

  template <auto Rows>
  void add() {
    if (row_.integer("id") != static_cast<std::int64_t>(rows_))
      row_.fail("id", "is not the row's number");
    read_row(row_, (graph_.*Rows).emplace_back());
    row_.finish();
  }

  std::string where() const {
    return level_ < 2 ? "" : "row " + std::to_string(rows_) + " of " + table_ + ": ";
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError("read_json", source_ + ": " + what);
  }

  Graph graph_;
  std::string source_;
  std::string table_;
  void (Reader::*add_)() = nullptr;
  std::size_t rows_ = 0;
  unsigned seen_ = 0;
  int level_ = 0;
  std::size_t skipped_ = 0;  // how deep below the level
  JsonRow row_, attribute_;
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

}  // namespace

Graph from_json(std::string_view text, std::string_view source) {
  Reader reader(source);
  try {
    io::check_no_zero_byte(text);
  } catch (const io::JsonError& error) {
    throw ValueError("read_json", std::string(source) + ": " + error.what());
  }
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.finish();
}

Graph read_json(std::istream& in) {
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) throw IoError("read_json", "the stream cannot be read");
  return from_json(text, "stream");
}

Graph read_json(const std::filesystem::path& path) {
  return from_json(io::read_file("read_json", path), path.string());
}

}  // namespace tapehead::graph
