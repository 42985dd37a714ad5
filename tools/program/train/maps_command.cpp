// tapehead maps: what a trained model attends to in a text.
#include "maps_command.h"

#include <tapehead/graph/attention_maps.h>
#include <tapehead/nn/io/atomic_file.h>

#include <filesystem>
#include <iostream>

#include "../utf8.h"
#include "checkpoint.h"

namespace tapehead::program {
namespace {

std::vector<Token> encode(const StoredModel& stored, const std::string& text) {
  std::vector<Token> tokens = stored.vocabulary.encode(decode_utf8(text, "--text"), "--text");
  if (tokens.empty()) throw ValueError("maps", "--text is empty");
  const auto context = static_cast<std::size_t>(stored.model.options().context);
  if (tokens.size() > context)
    throw ValueError("maps", "--text has " + std::to_string(tokens.size()) +
                                 " characters, and the model's context is " +
                                 std::to_string(context));
  return tokens;
}

std::vector<nn::AttentionMap> maps_of(const nn::Gpt& model, const std::vector<Token>& tokens) {
  const std::vector<std::int64_t> indices(tokens.begin(), tokens.end());
  const Tape::Pause pause;
  const nn::AttentionRecorder recorder;
  model(from_vector(indices, {std::ssize(indices)}));
  return recorder.maps();
}

std::vector<std::string> texts_of(const Vocabulary& vocabulary, const std::vector<Token>& tokens) {
  std::vector<std::string> texts;
  for (const std::int64_t token : tokens) texts.push_back(vocabulary.decode({&token, 1}));
  return texts;
}

}  // namespace

int run_maps(const MapsCommand& command) {
  const std::filesystem::path path = command.out;
  const bool as_page = path.extension() == ".html";
  if (!as_page && path.extension() != ".json")
    throw ValueError("maps", "--out " + command.out + " must end in .html or .json");
  const StoredModel stored = load_model(command.model);
  const std::vector<Token> tokens = encode(stored, command.text);
  const std::vector<nn::AttentionMap> maps = maps_of(stored.model, tokens);
  const std::vector<std::string> texts = texts_of(stored.vocabulary, tokens);
  io::AtomicFile file("maps", path);
  file.write(as_page ? graph::attention_to_html(maps, texts)
                     : graph::attention_to_json(maps, texts));
  file.commit();
  std::cout << maps.size() << " layers, " << tokens.size() << " characters: " << command.out
            << "\n";
  return done;
}

}  // namespace tapehead::program
