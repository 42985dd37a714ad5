#include "checkpoint.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/nn/io/atomic_file.h>
#include <tapehead/nn/io/strict_json.h>
#include <tapehead/nn/safetensors.h>

#include <nlohmann/json.hpp>

#include "../utf8.h"
#include "trainer.h"

namespace tapehead::program {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* run_format = "tapehead-run/1";
constexpr const char* model_format = "tapehead-model/1";
constexpr std::string_view parameter_prefix = "model.";
constexpr std::string_view optimizer_prefix = "optimizer.";
constexpr const char* losses_name = "losses";
constexpr const char* held_out_name = "held_out";  // rows of step, loss

fs::path checkpoint_file(const fs::path& folder) { return folder / "checkpoint.safetensors"; }
fs::path model_file(const fs::path& folder) { return folder / "model.safetensors"; }

[[noreturn]] void damaged(const fs::path& file, const std::string& why) {
  throw ValueError("checkpoint", file.string() + ": " + why);
}

// ---- writing ------------------------------------------------------------------------------------

void append(nn::StateDict& all, std::string_view prefix, const nn::StateDict& part) {
  for (const nn::NamedTensor& entry : part)
    all.push_back({std::string(prefix) + entry.name, entry.tensor});
}

Tensor as_tensor(const std::vector<RunState::Evaluation>& evaluations) {
  std::vector<double> values;
  for (const RunState::Evaluation& evaluation : evaluations) {
    values.push_back(static_cast<double>(evaluation.step));
    values.push_back(evaluation.loss);
  }
  return from_vector(values, {static_cast<std::int64_t>(evaluations.size()), 2});
}

json describe_run(const RunState& state) {
  return {{"options", to_json(state.options)},
          {"characters", state.characters},
          {"checksum", state.checksum},
          {"ranks", state.ranks},
          {"step", state.step},
          {"total", state.total ? json(*state.total) : json()},
          {"seconds", state.seconds}};
}

std::string losses_as_csv(const RunState& state) {
  std::string text = "step,loss,held_out\n";
  auto evaluation = state.held_out.begin();
  for (std::size_t i = 0; i < state.losses.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i) + 1;
    text += std::to_string(step) + "," + format_number(state.losses[i]) + ",";
    if (evaluation != state.held_out.end() && evaluation->step == step)
      text += format_number((evaluation++)->loss);
    text += "\n";
  }
  return text;
}

// ---- reading ------------------------------------------------------------------------------------

// The JSON text that stands in the metadata beside the name of the format.
json read_description(const nn::Safetensors& file, const fs::path& path, const char* format) {
  const auto found = file.metadata.find("format"), text = file.metadata.find("description");
  if (found == file.metadata.end() || found->second != format || text == file.metadata.end())
    damaged(path, std::string("it is not a ") + format + " file");
  try {
    json description = io::parse_json(text->second);
    if (!description.is_object()) damaged(path, "its description is no JSON object");
    return description;
  } catch (const io::JsonError& error) {
    damaged(path, std::string("its description: ") + error.what());
  }
}

RunState read_state(const json& description, const fs::path& path) {
  RunState state;
  try {
    state.options = train_options_from_json(description.at("options"), path.string());
    description.at("characters").get_to(state.characters);
    state.checksum = io::unsigned_at(description, "checksum");
    // Earlier files have none.
    if (description.contains("ranks")) state.ranks = io::integer_at(description, "ranks");
    state.step = io::integer_at(description, "step");
    description.at("seconds").get_to(state.seconds);
    if (!description.at("total").is_null()) state.total = io::integer_at(description, "total");
  } catch (const json::exception& error) {
    damaged(path, error.what());
  } catch (const io::JsonError& error) {
    damaged(path, error.what());
  }
  if (state.step < 0 || (state.total && *state.total < state.step))
    damaged(path, "its step is out of range");
  return state;
}

// Undefined where there is none of that name.
void check_f64(const Tensor& tensor, const char* name, const fs::path& path) {
  if (tensor.defined() && tensor.dtype() != DType::f64)
    damaged(path, std::string("the tensor \"") + name + "\" is " + describe(tensor) +
                      " in place of f64 " + to_string(tensor.shape()));
}

void read_history(const Tensor& losses, const Tensor& held_out, RunState& state,
                  const fs::path& path) {
  check_f64(losses, losses_name, path);
  check_f64(held_out, held_out_name, path);
  if (!losses.defined() || losses.shape() != Shape{state.step})
    damaged(path, "its tensor \"losses\" is not one number a step");
  if (!held_out.defined() || held_out.rank() != 2 || held_out.size(1) != 2)
    damaged(path, "its tensor \"held_out\" is not pairs of a step and a loss");
  state.losses = losses.to_vector();
  const std::vector<double> values = held_out.to_vector();
  for (std::size_t i = 0; i < values.size(); i += 2) {
    if (!(values[i] >= 1 && values[i] <= static_cast<double>(state.step)))
      damaged(path, "its tensor \"held_out\" has a step that was not made");
    state.held_out.push_back({static_cast<std::int64_t>(values[i]), values[i + 1]});
  }
}

// Before a model of the size that the file claims is made: that the file holds such a model. The
// parameters of a dry run have shapes and no bytes.
void check_fits(const TrainOptions& options, std::int64_t vocabulary_size,
                const nn::StateDict& parameters, const fs::path& path) {
  if (options.layers > static_cast<std::int64_t>(parameters.size()))
    damaged(path, "it has fewer layers than it says");
  try {
    const DryRun dry;
    make_model(options, vocabulary_size).load_state_dict(parameters);
  } catch (const Error& error) {
    damaged(path, error.what());
  }
}

Vocabulary read_vocabulary(const std::string& characters, const fs::path& path) {
  Vocabulary vocabulary(decode_utf8(characters, path.string()));
  if (vocabulary.size() == 0) damaged(path, "its vocabulary is empty");
  return vocabulary;
}

}  // namespace

void save_run(const fs::path& folder, const RunState& state, const nn::Gpt& model,
              nn::Optimizer& optimizer) {
  const nn::StateDict parameters = model.state_dict();
  TrainOptions shared = state.options;
  shared.text.clear();  // a model may be given away, and paths are nobody's business
  const json model_description = {{"options", to_json(shared)}, {"characters", state.characters}};
  nn::StateDict all;
  append(all, parameter_prefix, parameters);
  append(all, optimizer_prefix, optimizer.state());
  all.push_back(
      {losses_name, from_vector(state.losses, {static_cast<std::int64_t>(state.losses.size())})});
  all.push_back({held_out_name, as_tensor(state.held_out)});
  nn::save_safetensors(checkpoint_file(folder), all,
                       {{"format", run_format}, {"description", describe_run(state).dump()}});
  nn::save_safetensors(model_file(folder), parameters,
                       {{"format", model_format}, {"description", model_description.dump()}});
  io::AtomicFile losses("train", folder / "losses.csv");
  losses.write(losses_as_csv(state));
  losses.commit();
}

bool has_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(checkpoint_file(folder), ignored);
}

void check_has_run(const fs::path& folder) {
  if (!has_run(folder))
    throw IoError("train", checkpoint_file(folder).string() + ": there is no run to go on with");
}

StoredRun load_run(const fs::path& folder) {
  const fs::path path = checkpoint_file(folder);
  const nn::Safetensors file = nn::load_safetensors(path);
  StoredRun run{read_state(read_description(file, path, run_format), path), {}, {}};
  Tensor losses, held_out;
  for (const nn::NamedTensor& entry : file.tensors) {
    const std::string_view name = entry.name;
    if (name.starts_with(parameter_prefix))
      run.parameters.push_back({entry.name.substr(parameter_prefix.size()), entry.tensor});
    else if (name.starts_with(optimizer_prefix))
      run.optimizer.push_back({entry.name.substr(optimizer_prefix.size()), entry.tensor});
    else if (name == losses_name) losses = entry.tensor;
    else if (name == held_out_name) held_out = entry.tensor;
    else damaged(path, "the tensor \"" + entry.name + "\" does not belong there");
  }
  read_history(losses, held_out, run.state, path);
  check_fits(run.state.options, read_vocabulary(run.state.characters, path).size(), run.parameters,
             path);
  return run;
}

void restore(const StoredRun& run, const fs::path& folder, Trainer& trainer) {
  try {
    trainer.restore(run.parameters, run.optimizer);
  } catch (const Error& error) {
    damaged(checkpoint_file(folder), error.what());
  }
}

StoredModel load_model(const fs::path& folder) {
  const fs::path path = model_file(folder);
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw IoError("checkpoint", "--model " + folder.string() + ": there is no trained model, for " +
                                    path.string() + " does not exist");
  const nn::Safetensors file = nn::load_safetensors(path);
  const json description = read_description(file, path, model_format);
  if (!description.contains("options") || !description.contains("characters") ||
      !description["characters"].is_string())
    damaged(path, "its description is not that of a model");
  const TrainOptions options = train_options_from_json(description["options"], path.string());
  Vocabulary vocabulary = read_vocabulary(description["characters"].get<std::string>(), path);
  check_fits(options, vocabulary.size(), file.tensors, path);
  StoredModel stored{make_model(options, vocabulary.size()), std::move(vocabulary)};
  stored.model.load_state_dict(file.tensors);
  stored.model.eval();
  return stored;
}

}  // namespace tapehead::program
