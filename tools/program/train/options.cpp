#include "options.h"

#include <tapehead/core/error.h>
#include <tapehead/nn/io/strict_json.h>

#include <nlohmann/json.hpp>

#include "../option_rules.h"

namespace tapehead::program {
namespace {

using nlohmann::json;

constexpr OptionRules rules("train");

}  // namespace

json to_json(const TrainOptions& o) {
  return {
      {"text", o.text},       {"layers", o.layers},   {"heads", o.heads},
      {"dim", o.dim},         {"context", o.context}, {"batch", o.batch},
      {"lr", o.lr},           {"seed", o.seed},       {"minutes", o.minutes},
      {"threads", o.threads}, {"dtype", o.dtype},     {"steps", o.steps ? json(*o.steps) : json()},
      {"dropout", o.dropout}};
}

TrainOptions train_options_from_json(const json& stored, const std::string& source) {
  const auto reject = [&](const char* why) {
    throw ValueError("train", source + ": the stored options cannot be read: " + why);
  };
  TrainOptions o;
  try {
    stored.at("text").get_to(o.text);
    o.layers = io::integer_at(stored, "layers");
    o.heads = io::integer_at(stored, "heads");
    o.dim = io::integer_at(stored, "dim");
    o.context = io::integer_at(stored, "context");
    o.batch = io::integer_at(stored, "batch");
    stored.at("lr").get_to(o.lr);
    o.seed = io::unsigned_at(stored, "seed");
    stored.at("minutes").get_to(o.minutes);
    o.threads = io::integer_at(stored, "threads");
    stored.at("dtype").get_to(o.dtype);
    o.dropout = stored.value("dropout", o.dropout);  // earlier files have none
    if (!stored.at("steps").is_null()) o.steps = io::integer_at(stored, "steps");
  } catch (const json::exception& error) {
    reject(error.what());
  } catch (const io::JsonError& error) {
    reject(error.what());
  }
  check(o);
  return o;
}

std::vector<std::string> train_option_names() {
  std::vector<std::string> names;
  const json all = to_json(TrainOptions{});
  for (const auto& [name, unused] : all.items()) names.push_back(name);
  return names;
}

void check_same_option(const std::string& name, const TrainOptions& options,
                       const TrainOptions& stored, const std::string& owner) {
  const json wanted = to_json(options).at(name), had = to_json(stored).at(name);
  rules.require(wanted == had, "--" + name + " " + wanted.dump() + ": " + owner +
                                   " was started with " + had.dump());
}

void check(const TrainOptions& o) {
  rules.positive("--layers", o.layers);
  rules.positive("--heads", o.heads);
  rules.positive("--dim", o.dim);
  rules.positive("--context", o.context);
  rules.positive("--batch", o.batch);
  if (o.steps) rules.positive("--steps", *o.steps);
  rules.positive("--minutes", o.minutes);
  rules.positive("--lr", o.lr);
  // Nineteen centuries; the steps done in them can be counted.
  rules.must(o.minutes <= 1e9, option_text("--minutes", o.minutes), "be at most 1e+09");
  rules.threads(o.threads);
  rules.dropout(o.dropout);
  rules.must(o.dtype == "f32" || o.dtype == "f64", option_text("--dtype", o.dtype),
             "be f32 or f64");
  rules.heads(o.dim, o.heads);
}

DType floating_dtype(const TrainOptions& options) {
  return options.dtype == "f64" ? DType::f64 : DType::f32;
}

}  // namespace tapehead::program
