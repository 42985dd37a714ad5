// One attention head learns to look at the token before: at each position it must name the token
// that stood one place earlier, and only attention can carry it there. Prints the head's map.
// Succeeds if it names every one of new sequences, and looks where it should.
#include <tapehead/tapehead.h>

#include <iostream>
#include <string>

using namespace tapehead;

constexpr std::int64_t vocabulary = 12, length = 16, dim = 32;

struct OneHead : nn::Module {
  nn::Embedding tokens{{.num_embeddings = vocabulary, .embedding_dim = dim}};
  nn::LearnedPositions positions{{.max_positions = length, .dim = dim, .deviation = 1}};
  nn::MultiHeadAttention attention{{.embed_dim = dim, .num_heads = 1}};
  nn::Linear output{dim, vocabulary};

  void visit(nn::Visitor& v) override {
    v("tokens", tokens);
    v("positions", positions);
    v("attention", attention);
    v("output", output);
  }
  // (N, T) -> (N, T, vocabulary). There is no path around the attention.
  Tensor operator()(const Tensor& x) const {
    const ModuleScope scope = enter();
    const Tensor embedded = tokens(x) + positions(x.size(1));
    return output(attention(embedded, nn::Mask::causal()));
  }
};

// Position t asks for the token at t - 1. The first has none, and a target that is ignored.
Tensor previous(const Tensor& x) {
  const CrossEntropyOptions options;
  const Tensor none = full({x.size(0), 1}, static_cast<double>(options.ignore_index), DType::i64);
  return cat({none, narrow(x, 1, 0, x.size(1) - 1)}, 1);
}

void train(OneHead& model) {
  nn::Adam optimizer(model, {.lr = 5e-3});
  for (int step = 0; step <= 400; ++step) {
    const Tensor x = randint(0, vocabulary, {32, length});
    Tape tape;
    // cross_entropy wants the classes in dim 1.
    const Tensor loss = cross_entropy(transpose(model(x), 1, 2), previous(x));
    optimizer.step(tape.gradient(loss, model.parameters()));
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
}

// Rows are queries, columns keys; the darker the more weight.
void print(const Tensor& weights) {
  const std::string shades = " .:-=+*#%@";
  for (std::int64_t query = 0; query < length; ++query) {
    for (std::int64_t key = 0; key < length; ++key) {
      const double weight = select(select(weights, 0, query), 0, key).item();
      const char shade = shades[static_cast<std::size_t>(weight * 9.99)];
      std::cout << shade << shade;
    }
    std::cout << "|\n";
  }
}

int main() {
  manual_seed(1);
  OneHead model;
  train(model);

  const Tensor x = randint(0, vocabulary, {100, length});
  nn::AttentionRecorder recorder;
  const Tensor logits = model(x);
  // (batch, heads, queries, keys), averaged over the batch: (queries, keys).
  const Tensor weights = select(mean(recorder.maps().front().weights, {0}), 0, 0);
  print(weights);

  const auto without_first = [](const Tensor& t) { return narrow(t, 1, 1, length - 1); };
  const bool all_right = equal(without_first(argmax(logits, -1)), without_first(previous(x)));
  // What the queries 1, 2, ... give to the keys 0, 1, ...
  const double least = amin(diagonal(narrow(weights, 0, 1, length - 1))).item();
  std::cout << (all_right ? "every" : "not every") << " token of 100 new sequences is right; the "
            << "weight of the token before is at least " << least << "\n";
  return all_right && least > 0.9 ? 0 : 1;
}
