// An object of a JSON file that others may have written.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

namespace tapehead::program {

/// A number, or one of the strings "nan", "inf" and "-inf" that stand for one; nothing otherwise.
std::optional<double> number_from_json(const nlohmann::json& value);

/// Values by their keys, each of which must be asked for: one that nobody reads would be skipped in
/// silence. What is missing or of another type is a JsonError that says where.
class JsonObject {
 public:
  /// `where` it stands, and the `noun` of its keys, such as "the argument", open complaints. The
  /// value outlives this.
  explicit JsonObject(const nlohmann::json& value, std::string where = "", std::string noun = "");

  bool has(const char* key) const;
  const nlohmann::json& operator[](const char* key);

  std::int64_t integer(const char* key);
  /// See number_from_json().
  double number(const char* key);
  bool truth(const char* key);
  std::string text(const char* key);
  const nlohmann::json& list(const char* key);
  const nlohmann::json& object(const char* key);

  /// Call it last: JsonError when a key was not asked for.
  void finish() const;

  [[noreturn]] void fail(const std::string& what) const;
  const std::string& where() const { return where_; }

 private:
  std::string quoted(const std::string& key) const;

  const nlohmann::json& value_;
  const std::string where_, noun_;
  std::set<std::string> asked_;
};

}  // namespace tapehead::program
