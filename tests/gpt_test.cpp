// Feed-forward part and Gpt: formulas, gradients, saved bytes, training, generating.
#include "support/checks.h"
#include "support/tensors.h"
#include "support/values.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/core/ledger.h>
#include <tapehead/core/memory.h>
#include <tapehead/core/parallel.h>
#include <tapehead/nn/gpt.h>
#include <tapehead/nn/optimizer.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <cmath>
#include <map>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;
using tests::infinity;
using tests::noise;

namespace {

using Tokens = std::vector<std::int64_t>;

GptOptions small_options() {
  return {.vocab_size = 7, .context = 6, .layers = 2, .heads = 2, .dim = 8};
}

Gpt small_gpt(GptOptions options = small_options()) {
  Generator generator(5);
  return Gpt(options, generator);
}

Tensor tokens_of(const Tokens& tokens, const Shape& shape) { return from_vector(tokens, shape); }

Tensor next_token_loss(const Gpt& model, const Tensor& tokens) {
  const std::int64_t time = tokens.size(1);
  const Tensor logits = model(narrow(tokens, 1, 0, time - 1));
  return cross_entropy(transpose(logits, 1, 2), narrow(tokens, 1, 1, time - 1));
}

}  // namespace

// ---- feed-forward ------------------------------------------------------------------------------

TEST_CASE("the feed-forward part is linear2(activation(linear1(x))), for each activation") {
  const Tensor x = noise({3, 4}, 1);
  const Tape::Pause pause;
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    const FeedForward part({.dim = 4, .hidden = 8, .activation = activation, .dtype = DType::f64});
    Tensor hidden = part.linear1(x);
    if (activation == Activation::relu) hidden = relu(hidden);
    else
      hidden = gelu(hidden, activation == Activation::gelu ? Approximate::none : Approximate::tanh);
    CHECK(equal(part(x), part.linear2(hidden)));
    CHECK(parse_activation(to_string(activation)) == activation);
  }
  check_throws(ErrorKind::value, {"swish"}, [] { parse_activation("swish"); });
}

// ---- Gpt ---------------------------------------------------------------------------------------

TEST_CASE("Gpt gives logits for each next token, and an early token does not see a later one") {
  const Gpt model = small_gpt();
  const Tape::Pause pause;
  const Tensor logits = model(tokens_of({1, 2, 3, 4, 1, 2, 6, 4}, {2, 4}));
  CHECK(logits.shape() == Shape{2, 4, 7});
  const Tensor first = select(logits, 0, 0), second = select(logits, 0, 1);
  CHECK(equal(narrow(first, 0, 0, 2), narrow(second, 0, 0, 2)));
  CHECK(!equal(select(first, 0, 2), select(second, 0, 2)));
  CHECK(allclose(model(tokens_of({1, 2, 3, 4}, {4})), first, 1e-5, 1e-6));
}

TEST_CASE("Gpt with fused attention makes nothing of the size T x T, not even a mask") {
  const auto largest_storage = [](AttentionPath path) {
    constexpr std::int64_t time = 256;
    GptOptions options = small_options();
    options.context = time;
    options.path = path;
    const DryRun dry;
    const Gpt model = small_gpt(options);
    const Tensor tokens = zeros({1, time}, DType::i64);
    const Ledger ledger;
    Tape tape;
    const Tensor loss = sum(model(tokens));
    tape.gradient(loss, model.parameters());
    std::int64_t largest = 0;
    for (const Graph::Storage& storage : ledger.graph().storages)
      largest = std::max(largest, storage.bytes);
    return largest;
  };
  CHECK(largest_storage(AttentionPath::fused) == 4 * 256 * 32);  // in the feed-forward part
  CHECK(largest_storage(AttentionPath::composed) >= 4 * 2 * 256 * 256);
}

TEST_CASE("positions matter: the same token at two places has different logits") {
  const Gpt model = small_gpt();
  const Tape::Pause pause;
  const Tensor logits = model(tokens_of({3, 3}, {2}));
  CHECK(!allclose(select(logits, 0, 0), select(logits, 0, 1)));
}

TEST_CASE("a tied output uses the token embedding, and its gradient is the sum over both uses") {
  GptOptions options = small_options();
  options.tied_output = true;
  options.dtype = DType::f64;
  Gpt tied = small_gpt(options);
  CHECK(!tied.head.has_value());
  CHECK(tied.parameter_count() == small_gpt().parameter_count() - 7 * 8);
  options.tied_output = false;
  Gpt untied = small_gpt(options);
  StateDict state = tied.state_dict();
  state.push_back({"head.weight", tied.token_embedding.weight});
  untied.load_state_dict(state);
  const Tensor tokens = tokens_of({1, 2, 3, 4, 0, 6}, {2, 3});
  const auto gradients = [&](const Gpt& model) {
    Tape tape;
    return tape.gradient(next_token_loss(model, tokens), model.parameters());
  };
  const Gradients one = gradients(tied), two = gradients(untied);
  CHECK(allclose(one[tied.token_embedding.weight],
                 two[untied.token_embedding.weight] + two[untied.head->weight], 1e-12, 1e-14));
}

TEST_CASE("every parameter of Gpt is reached by its loss, and none is left unlisted") {
  const Gpt model = small_gpt();
  Tape tape;
  const Tensor loss = next_token_loss(model, tokens_of({1, 2, 3, 4, 0, 6}, {2, 3}));
  model.check_all_listed(tape);
  const Gradients gradients = tape.gradient(loss, model.parameters());
  for (const NamedTensor& parameter : model.named_parameters())
    CHECK_MESSAGE(gradients.reached(parameter.tensor), parameter.name);
}

TEST_CASE("the graph's saved activations are the bytes that the tape gives back") {
  const Gpt model = small_gpt();
  const Tensor tokens = tokens_of({1, 2, 3, 4, 0, 6}, {2, 3});
  std::int64_t saved = 0, with_tape = 0;
  {
    Tape tape;
    next_token_loss(model, tokens);
    saved = tape.graph().saved_activation_bytes();
    with_tape = memory_stats().live;
  }
  CHECK(saved > 0);
  CHECK(with_tape - memory_stats().live == saved);
}

TEST_CASE("all layers share one mask") {
  GptOptions options = small_options();
  options.layers = 3;
  const Gpt model = small_gpt(options);
  Tape tape;
  model(tokens_of({1, 2, 3, 4}, {1, 4}));
  const Graph graph = tape.graph();
  std::map<std::int64_t, int> uses;
  for (const Graph::SavedSlot& slot : graph.saved)
    if (slot.slot == "mask") ++uses[graph.values[static_cast<std::size_t>(slot.value)].storage];
  REQUIRE(uses.size() == 1);
  CHECK(uses.begin()->second == 3);
}

TEST_CASE("a whole training step runs dry, with the graph and the peak of the real one") {
  const auto run = [](bool dry) {
    std::optional<DryRun> scope;
    if (dry) scope.emplace();
    Gpt model = small_gpt();
    AdamW optimizer(model);
    const Tensor tokens = tokens_of({1, 2, 3, 4, 0, 6}, {2, 3});
    const std::int64_t before = memory_stats().live;
    reset_peak();
    Graph graph;
    {
      Tape tape;
      const Tensor loss = next_token_loss(model, tokens);
      graph = tape.graph();
      Gradients gradients = tape.gradient(loss, model.parameters());
      clip_grad_norm(gradients, 1);
      optimizer.step(gradients);
    }
    return std::pair(std::move(graph), memory_stats().peak - before);
  };
  const auto [dry_graph, dry_peak] = run(true);
  const auto [graph, peak] = run(false);
  CHECK(dry_graph == graph);
  CHECK(dry_peak == peak);
}

TEST_CASE("Gpt rejects what it cannot take") {
  const Gpt model = small_gpt();
  check_throws(ErrorKind::shape, {"(7)", "context is 6"}, [&] { model(zeros({7}, DType::i64)); });
  check_throws(ErrorKind::shape, {"(1, 1, 1)"}, [&] { model(zeros({1, 1, 1}, DType::i64)); });
  check_throws(ErrorKind::index, {"7"}, [&] { model(tokens_of({7}, {1})); });
  GptOptions options = small_options();
  options.heads = 3;
  check_throws(ErrorKind::value, {"embed_dim 8", "num_heads 3"}, [&] { Gpt{options}; });
  options.layers = 0;
  check_throws(ErrorKind::value, {"layers 0"}, [&] { Gpt{options}; });
}

TEST_CASE("a small Gpt learns a cycle of tokens and continues it") {
  for (const int threads : {1, 2}) {
    const ThreadBudget budget(threads);
    Gpt model = small_gpt();
    AdamW optimizer(decay_groups(model), {.lr = 0.01});
    const Tensor tokens = tokens_of({0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0, 1, 2}, {2, 7});
    double loss_value = 0;
    for (int k = 0; k < 60; ++k) {
      Tape tape;
      const Tensor loss = next_token_loss(model, tokens);
      loss_value = loss.item();
      Gradients gradients = tape.gradient(loss, model.parameters());
      clip_grad_norm(gradients, 1);
      optimizer.step(gradients);
    }
    CHECK(loss_value < 0.1);  // from ln 7 = 1.95; what is left is the first token of each sequence
    model.eval();
    CHECK(model.generate({3, 4}, 4, {.temperature = 0}) == Tokens{3, 4, 5, 6, 0, 1});
  }
}

TEST_CASE("training is the same bits twice") {
  std::vector<double> losses[2];
  for (std::vector<double>& trace : losses) {
    manual_seed(1);
    GptOptions options = small_options();
    options.dropout = 0.1;
    Gpt model = small_gpt(options);
    AdamW optimizer(model, {.lr = 0.01});
    const Tensor tokens = tokens_of({0, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0, 1, 2}, {2, 7});
    for (int k = 0; k < 5; ++k) {
      Tape tape;
      const Tensor loss = next_token_loss(model, tokens);
      trace.push_back(loss.item());
      optimizer.step(tape.gradient(loss, model.parameters()));
    }
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0][0] != losses[0][4]);
}

// ---- generating --------------------------------------------------------------------------------

TEST_CASE("generation draws from the generator, records nothing, and goes past the context") {
  const Gpt model = small_gpt();
  Generator first(3), second(3);
  Tape tape;
  const Tokens one = model.generate({1, 2}, 12, {}, first);
  CHECK(tape.size() == 0);
  CHECK(one.size() == 14);
  CHECK(model.generate({1, 2}, 12, {}, second) == one);
  CHECK(model.generate({1, 2}, 12, {}, second) != one);
  CHECK(model.generate({1, 2}, 0) == Tokens{1, 2});
  check_throws(ErrorKind::value, {"prompt"}, [&] { model.generate({}, 1); });
  check_throws(ErrorKind::value, {"count -1"}, [&] { model.generate({1}, -1); });
}

TEST_CASE("sampling follows softmax(logits / temperature), cut to the most likely tokens") {
  const std::vector<double> logits = {std::log(1.0), std::log(4.0), std::log(2.0)};
  Generator generator(7);
  const auto frequencies = [&](const SampleOptions& options) {
    std::vector<double> counts(3);
    for (int i = 0; i < 10000; ++i)
      counts[static_cast<std::size_t>(sample(logits, options, generator))] += 1e-4;
    return counts;
  };
  const auto close = [](double got, double want) {
    return std::abs(got - want) < 0.025;
  };  // 5 deviations
  const auto plain = frequencies({});
  CHECK((close(plain[0], 1 / 7.0) && close(plain[1], 4 / 7.0) && close(plain[2], 2 / 7.0)));
  const auto sharp = frequencies({.temperature = 0.5});
  CHECK((close(sharp[0], 1 / 21.0) && close(sharp[1], 16 / 21.0) && close(sharp[2], 4 / 21.0)));
  const auto cut = frequencies({.top_k = 2});
  CHECK(cut[0] == 0);
  CHECK(close(cut[1], 4 / 6.0));
  CHECK(frequencies({.top_k = 1})[1] == doctest::Approx(1));
  const RandomState before = generator.state();
  CHECK(sample(logits, {.temperature = 0}, generator) == 1);
  CHECK(generator.state() == before);
}

TEST_CASE("sampling at the edges: ties, infinities, and what it rejects") {
  Generator generator(1);
  const auto draw = [&](const std::vector<double>& logits, const SampleOptions& options = {}) {
    return sample(logits, options, generator);
  };
  CHECK(draw({1, 2, 2}, {.temperature = 0}) == 1);
  CHECK(draw({-infinity, 0, -infinity}) == 1);
  CHECK(draw({5, infinity, 7}) == 1);
  CHECK(draw({3}, {.top_k = 10}) == 0);
  check_throws(ErrorKind::value, {"NaN"}, [&] { draw({1, std::sqrt(-1.0)}); });
  check_throws(ErrorKind::value, {"no logits"}, [&] { draw({}); });
  check_throws(ErrorKind::value, {"temperature"}, [&] { draw({1}, {.temperature = -1}); });
  check_throws(ErrorKind::value, {"top_k 0"}, [&] { draw({1}, {.top_k = 0}); });
}
