#include <tapehead/core/error.h>
#include <tapehead/graph/internal/json_row.h>
#include <tapehead/graph/internal/not_finite.h>
#include <tapehead/nn/io/strict_json.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

namespace tapehead::graph {

JsonCell& JsonRow::add(std::string& key) {
  if (used_ == cells_.size()) cells_.emplace_back();
  JsonCell& cell = cells_[used_++];
  cell.key.swap(key);
  cell.kind = Kind::null;
  return cell;
}

void JsonRow::begin(std::string_view source, std::string_view table, std::size_t number) {
  source_ = source;
  table_ = table;
  number_ = number;
}

const JsonCell* JsonRow::find(std::string_view key) const {
  for (std::size_t i = 0; i < used_; ++i)
    if (cells_[i].key == key) return &cells_[i];
  return nullptr;
}

JsonCell* JsonRow::find(std::string_view key) {
  return const_cast<JsonCell*>(std::as_const(*this).find(key));
}

JsonCell& JsonRow::get(std::string_view key) {
  JsonCell* cell = find(key);
  if (!cell) fail(key, "is missing");
  ++read_;
  return *cell;
}

JsonCell& JsonRow::typed(std::string_view key, Kind kind, std::string_view otherwise) {
  JsonCell& cell = get(key);
  if (cell.kind != kind) fail(key, otherwise);
  return cell;
}

std::int64_t JsonRow::integer(std::string_view key) {
  return typed(key, Kind::integer, "is not a 64-bit integer").integer;
}

std::int64_t JsonRow::integer_or_null(std::string_view key, std::int64_t null_means) {
  const JsonCell& cell = get(key);
  if (cell.kind == Kind::null) return null_means;
  if (cell.kind != Kind::integer) fail(key, "is not a 64-bit integer");
  if (cell.integer < 0) fail(key, "is negative; what is missing is null");
  return cell.integer;
}

const std::vector<std::int64_t>& JsonRow::integers(std::string_view key) {
  const JsonCell& cell = get(key);
  const bool is_list = cell.kind == Kind::list || cell.kind == Kind::mixed;
  if (!is_list) fail(key, "is not a list");
  if (cell.kind == Kind::mixed || !cell.attributes.empty()) fail(key, "is not a 64-bit integer");
  return cell.integers;
}

Dims JsonRow::dims(std::string_view key) {
  const std::vector<std::int64_t>& list = integers(key);
  if (list.size() > Dims::max_rank) fail(key, "has more than 16 entries");
  return Dims(std::span<const std::int64_t>(list));
}

std::string JsonRow::text(std::string_view key) {
  return std::move(typed(key, Kind::text, "is not a string").text);
}

bool JsonRow::truth(std::string_view key) {
  return typed(key, Kind::truth, "is not true or false").truth;
}

double JsonRow::floating(std::string_view key) {
  const JsonCell& cell = get(key);
  if (cell.kind == Kind::real) return cell.real;
  if (cell.kind == Kind::integer) return static_cast<double>(cell.integer);
  if (cell.kind != Kind::text) fail(key, "is not a number");
  if (const std::optional<double> number = not_finite_of(cell.text)) return *number;
  fail(key, "is not a number");
}

std::vector<Graph::Attribute> JsonRow::attributes(std::string_view key) {
  JsonCell& cell = get(key);
  if (cell.kind == Kind::mixed || (cell.kind == Kind::list && !cell.integers.empty()))
    fail(key, "has an entry that is not an object");
  if (cell.kind != Kind::list) fail(key, "is not a list");
  return std::move(cell.attributes);
}

void JsonRow::finish() const {
  if (read_ != used_) fail("the row", "has a key that the format does not know, or one twice");
}

void JsonRow::fail(std::string_view key, std::string_view what) const {
  throw ValueError("read_json", std::string(source_) + ": row " + std::to_string(number_) + " of " +
                                    std::string(table_) + ": " + std::string(key) + " " +
                                    std::string(what));
}

void JsonRow::fail_with(std::string_view key, const std::string& name) const {
  fail(key, "is not one of the names allowed: " + io::shortened(nlohmann::json(name).dump()));
}

}  // namespace tapehead::graph
