#include "train_options.h"

#include <tapehead/core/error.h>
#include <tapehead/nn/strict_json.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tapehead::program {
namespace {

using nlohmann::json;

// A machine has fewer cores, and OpenMP ends the process when it cannot start a thread.
constexpr std::int64_t most_threads = 1024;
// Nineteen centuries; the steps done in them can be counted.
constexpr double most_minutes = 1e9;

void require(bool holds, const std::string& broken) {
  if (!holds) throw ValueError("train", broken);
}

template <class T>
std::string text_of(T value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

template <class T>
void require_positive(const char* option, T value) {
  require(value > 0 && std::isfinite(static_cast<double>(value)),
          std::string(option) + " " + text_of(value) + ": it must be positive and finite");
}

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
    o.layers = nn::integer_at(stored, "layers");
    o.heads = nn::integer_at(stored, "heads");
    o.dim = nn::integer_at(stored, "dim");
    o.context = nn::integer_at(stored, "context");
    o.batch = nn::integer_at(stored, "batch");
    stored.at("lr").get_to(o.lr);
    o.seed = nn::unsigned_at(stored, "seed");
    stored.at("minutes").get_to(o.minutes);
    o.threads = nn::integer_at(stored, "threads");
    stored.at("dtype").get_to(o.dtype);
    o.dropout = stored.value("dropout", o.dropout);  // earlier files have none
    if (!stored.at("steps").is_null()) o.steps = nn::integer_at(stored, "steps");
  } catch (const json::exception& error) {
    reject(error.what());
  } catch (const nn::JsonError& error) {
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
  require(wanted == had,
          "--" + name + " " + wanted.dump() + ": " + owner + " was started with " + had.dump());
}

void check(const TrainOptions& o) {
  require_positive("--layers", o.layers);
  require_positive("--heads", o.heads);
  require_positive("--dim", o.dim);
  require_positive("--context", o.context);
  require_positive("--batch", o.batch);
  if (o.steps) require_positive("--steps", *o.steps);
  require_positive("--minutes", o.minutes);
  require_positive("--lr", o.lr);
  require(o.minutes <= most_minutes,
          "--minutes " + text_of(o.minutes) + ": it must be at most " + text_of(most_minutes));
  require(o.threads >= 0 && o.threads <= most_threads,
          "--threads " + text_of(o.threads) + ": it must be 0 to " + text_of(most_threads));
  require(o.dropout >= 0 && o.dropout < 1,
          "--dropout " + text_of(o.dropout) + ": it must be at least 0 and below 1");
  require(o.dtype == "f32" || o.dtype == "f64", "--dtype " + o.dtype + ": it must be f32 or f64");
  require(o.dim % o.heads == 0,
          "--dim " + text_of(o.dim) + ": it must be a multiple of --heads " + text_of(o.heads));
}

DType floating_dtype(const TrainOptions& options) {
  return options.dtype == "f64" ? DType::f64 : DType::f32;
}

}  // namespace tapehead::program
