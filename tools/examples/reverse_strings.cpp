// A sequence-to-sequence model learns to reverse strings: an encoder reads "tape", a decoder, which
// sees the encoder's output by cross attention, writes "epat" letter by letter. The strings have
// different lengths, so a batch is padded and masks hide the padding.
// Succeeds if 500 strings that it was not trained on all come back reversed.
#include <tapehead/tapehead.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

using namespace tapehead;

// Letters are 0..25.
constexpr std::int64_t pad = 26, start = 27, stop = 28, vocabulary = 29;
constexpr std::int64_t longest = 8, dim = 64;

struct Batch {
  Tensor tokens;                      // (N, T), padded at the end
  std::vector<std::int64_t> lengths;  // without padding
};

// Strings between two marks, either of which may be left out.
Batch to_batch(const std::vector<std::string>& strings, bool with_start, bool with_stop) {
  Batch batch;
  std::vector<std::int64_t> tokens;
  for (const std::string& string : strings) {
    const std::size_t begin = tokens.size();
    if (with_start) tokens.push_back(start);
    for (const char letter : string) tokens.push_back(letter - 'a');
    if (with_stop) tokens.push_back(stop);
    batch.lengths.push_back(static_cast<std::int64_t>(tokens.size() - begin));
    tokens.resize(begin + longest + 1, pad);
  }
  const auto count = static_cast<std::int64_t>(strings.size());
  batch.tokens = from_vector(tokens, {count, longest + 1});
  return batch;
}

struct Reverser : nn::Module {
  nn::Embedding embedding{{.num_embeddings = vocabulary, .embedding_dim = dim}};
  nn::LearnedPositions positions{{.max_positions = longest + 1, .dim = dim, .deviation = 1}};
  nn::TransformerEncoder encoder{{.layer = layer(), .num_layers = 1}};
  nn::TransformerDecoder decoder{{.layer = layer(), .num_layers = 1}};
  nn::Linear output{dim, vocabulary};

  static nn::TransformerLayerOptions layer() {
    return {.d_model = dim, .nhead = 4, .dim_feedforward = 2 * dim, .dropout = 0};
  }
  void visit(nn::Visitor& v) override {
    v("embedding", embedding);
    v("positions", positions);
    v("encoder", encoder);
    v("decoder", decoder);
    v("output", output);
  }
  Tensor embed(const Tensor& tokens) const { return embedding(tokens) + positions(tokens.size(1)); }

  Tensor encode(const Batch& source) const {
    const ModuleScope scope = enter();
    return encoder(embed(source.tokens), nn::Mask::padding(source.lengths));
  }
  // What comes after each of `written`: (N, T, vocabulary). Queries that are padding give values
  // that nobody reads.
  Tensor decode(const Tensor& written, const Tensor& memory, const Batch& source) const {
    const ModuleScope scope = enter();
    return output(
        decoder(embed(written), memory, nn::Mask::causal(), nn::Mask::padding(source.lengths)));
  }
};

std::string reversed(std::string string) {
  std::reverse(string.begin(), string.end());
  return string;
}

std::vector<std::string> reversed(std::vector<std::string> strings) {
  for (std::string& string : strings) string = reversed(string);
  return strings;
}

// `count` strings of 2 to `longest` letters, none of them in `except`.
std::vector<std::string> draw_strings(int count, const std::set<std::string>& except) {
  std::vector<std::string> strings;
  while (std::ssize(strings) < count) {
    const auto length = randint(2, longest + 1, {}).item<std::int64_t>();
    std::string string;
    for (const std::int64_t letter : randint(0, 26, {length}).to_vector<std::int64_t>())
      string.push_back(static_cast<char>('a' + letter));
    if (!except.contains(string)) strings.push_back(string);
  }
  return strings;
}

void train(Reverser& model, const std::set<std::string>& held_out) {
  const int steps = 300;
  const nn::CosineSchedule schedule{.peak = 3e-3, .floor = 1e-4, .warmup = 30, .total = steps};
  nn::Adam optimizer(model);
  for (int step = 0; step < steps; ++step) {
    const std::vector<std::string> strings = draw_strings(64, held_out);
    const Batch source = to_batch(strings, false, true);
    const Batch written = to_batch(reversed(strings), true, false);
    const Batch next = to_batch(reversed(strings), false, true);
    optimizer.set_lr(schedule(step));
    Tape tape;
    const Tensor logits = model.decode(written.tokens, model.encode(source), source);
    const Tensor loss = cross_entropy(transpose(logits, 1, 2), next.tokens, {.ignore_index = pad});
    Gradients gradients = tape.gradient(loss, model.parameters());
    nn::clip_grad_norm(gradients, 1);
    optimizer.step(gradients);
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
}

// Writes the likeliest letter each time, until the stop mark.
std::vector<std::string> answers(const Reverser& model, const std::vector<std::string>& questions) {
  const Batch source = to_batch(questions, false, true);
  const Tensor memory = model.encode(source);
  Tensor written = full({source.tokens.size(0), 1}, start, DType::i64);
  for (std::int64_t i = 0; i <= longest; ++i) {
    const Tensor logits = model.decode(written, memory, source);
    const Tensor next = argmax(select(logits, 1, -1), -1, true);
    written = cat({written, next}, 1);
  }
  std::vector<std::string> strings(questions.size());
  const std::vector<std::int64_t> tokens = written.to_vector<std::int64_t>();
  const std::size_t width = longest + 2;  // the start mark, the letters and the stop mark
  for (std::size_t n = 0; n < questions.size(); ++n)
    for (std::size_t i = 1; i < width && tokens[n * width + i] < pad; ++i)
      strings[n].push_back(static_cast<char>('a' + tokens[n * width + i]));
  return strings;
}

int main() {
  manual_seed(1);
  const std::vector<std::string> questions = draw_strings(500, {});
  Reverser model;
  train(model, {questions.begin(), questions.end()});

  const std::vector<std::string> given = answers(model, questions);
  int right = 0;
  for (std::size_t n = 0; n < questions.size(); ++n) {
    if (n < 5) std::cout << questions[n] << " -> " << given[n] << "\n";
    right += given[n] == reversed(questions[n]);
  }
  std::cout << right << " of 500 strings never seen are reversed\n";
  return right == 500 ? 0 : 1;
}
