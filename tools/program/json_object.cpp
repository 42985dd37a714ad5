#include "json_object.h"

#include <tapehead/graph/internal/not_finite.h>
#include <tapehead/nn/io/strict_json.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace tapehead::program {

using nlohmann::json;

std::optional<double> number_from_json(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string* name = value.get_ptr<const std::string*>();
  return name ? graph::not_finite_of(*name) : std::nullopt;
}

JsonObject::JsonObject(const json& value, std::string where, std::string noun)
    : value_(value), where_(std::move(where)), noun_(std::move(noun)) {
  if (!value.is_object()) fail("is not an object");
}

bool JsonObject::has(const char* key) const { return value_.contains(key); }

const json& JsonObject::operator[](const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(quoted(key) + " is missing");
  asked_.insert(key);
  return *found;
}

std::int64_t JsonObject::integer(const char* key) {
  const std::optional<std::int64_t> value = io::integer_of((*this)[key]);
  if (!value) fail(quoted(key) + " is not a 64-bit integer");
  return *value;
}

double JsonObject::number(const char* key) {
  const std::optional<double> value = number_from_json((*this)[key]);
  if (!value) fail(quoted(key) + " is not a number");
  return *value;
}

bool JsonObject::truth(const char* key) {
  const json& value = (*this)[key];
  if (!value.is_boolean()) fail(quoted(key) + " is not true or false");
  return value.get<bool>();
}

std::string JsonObject::text(const char* key) {
  const json& value = (*this)[key];
  if (!value.is_string()) fail(quoted(key) + " is not a string");
  return value.get<std::string>();
}

const json& JsonObject::list(const char* key) {
  const json& value = (*this)[key];
  if (!value.is_array()) fail(quoted(key) + " is not a list");
  return value;
}

const json& JsonObject::object(const char* key) {
  const json& value = (*this)[key];
  if (!value.is_object()) fail(quoted(key) + " is not an object");
  return value;
}

void JsonObject::finish() const {
  for (const auto& [key, unused] : value_.items())
    if (!asked_.contains(key)) fail(quoted(key) + " does not belong here");
}

void JsonObject::fail(const std::string& what) const {
  throw io::JsonError(where_.empty() ? what : where_ + ": " + what);
}

std::string JsonObject::quoted(const std::string& key) const {
  return (noun_.empty() ? "\"" : noun_ + " \"") + key + "\"";
}

}  // namespace tapehead::program
