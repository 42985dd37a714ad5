// One row of a graph file while it is read.
#pragma once

#include <tapehead/core/graph.h>
#include <tapehead/core/shape.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead::graph {

/// What stands behind one key.
struct JsonCell {
  /// `mixed` is a list of anything else than integers or attributes alone, `other` an object, or
  /// something deeper than the format goes.
  enum class Kind : std::uint8_t { null, truth, integer, real, text, list, mixed, other };
  std::string key;
  Kind kind = Kind::null;
  bool truth = false;
  std::int64_t integer = 0;
  double real = 0;  ///< of integers too large for 64 bits also
  std::string text;
  std::vector<std::int64_t> integers;  ///< a list has integers or attributes
  std::vector<Graph::Attribute> attributes;

  void begin_list() {
    kind = Kind::list;
    integers.clear();
    attributes.clear();
  }
  bool takes_integers() const { return kind == Kind::list && attributes.empty(); }
  bool takes_attributes() const { return kind == Kind::list && integers.empty(); }
};

/// An object of the file, filled key by key, then read key by key. It keeps its memory from row to
/// row. Errors are ValueError with the row's place.
class JsonRow {
 public:
  // ---- filling ----

  void clear() { used_ = read_ = 0; }
  /// The cell for the next key.
  JsonCell& add(std::string& key);
  JsonCell& last() { return cells_[used_ - 1]; }

  // ---- reading ----

  /// It is row `number` of `table` in `source`, as errors say; both names must outlive the reading.
  void begin(std::string_view source, std::string_view table, std::size_t number);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::int64_t integer(std::string_view key);
  /// Not negative, where it is no null.
  std::int64_t integer_or_null(std::string_view key, std::int64_t null_means);
  const std::vector<std::int64_t>& integers(std::string_view key);
  Dims dims(std::string_view key);
  std::string text(std::string_view key);
  bool truth(std::string_view key);
  /// A number, or "nan", "inf" or "-inf".
  double floating(std::string_view key);
  std::vector<Graph::Attribute> attributes(std::string_view key);

  /// One of `all`, found by the name that to_string gives it.
  template <class Enum, std::size_t N>
  Enum one_of(std::string_view key, const std::array<Enum, N>& all) {
    const std::string& name = typed(key, Kind::text, "is not a string").text;
    for (const Enum candidate : all)
      if (to_string(candidate) == name) return candidate;
    fail_with(key, name);
  }

  /// Call it last: what nobody asked for does not belong here.
  void finish() const;

  [[noreturn]] void fail(std::string_view key, std::string_view what) const;

 private:
  using Kind = JsonCell::Kind;

  JsonCell* find(std::string_view key);
  const JsonCell* find(std::string_view key) const;
  JsonCell& get(std::string_view key);
  JsonCell& typed(std::string_view key, Kind kind, std::string_view otherwise);
  [[noreturn]] void fail_with(std::string_view key, const std::string& name) const;

  std::vector<JsonCell> cells_;
  std::size_t used_ = 0, read_ = 0;
  std::string_view source_, table_;
  std::size_t number_ = 0;
};

}  // namespace tapehead::graph
