// Gpt step by step: with a cache against one pass, for every kind of positions.
#include "support/checks.h"

#include <tapehead/nn/gpt.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/windows.h>

#include <algorithm>
#include <set>

using namespace tapehead;
using namespace tapehead::nn;
using tests::check_throws;

namespace {

using Tokens = std::vector<std::int64_t>;

constexpr GptPositions all_positions[] = {GptPositions::learned, GptPositions::sinusoidal,
                                          GptPositions::rotary, GptPositions::alibi};

GptOptions small_options(GptPositions positions, DType dtype = DType::f64) {
  return {.vocab_size = 97,
          .context = 12,
          .layers = 2,
          .heads = 4,
          .dim = 16,
          .positions = positions,
          .kv_heads = 2,
          .dtype = dtype};
}

// Parameters of several times the first values' size, so that the next token depends on all before.
Gpt lively_gpt(const GptOptions& options, std::uint64_t seed = 5) {
  Generator generator(seed);
  Gpt model(options, generator);
  StateDict state = model.state_dict();
  for (NamedTensor& entry : state)
    if (entry.tensor.rank() == 2) {
      const Tensor spread = randn(entry.tensor.shape(), options.dtype, generator);
      entry.tensor = entry.tensor.detach() + spread;
    }
  model.load_state_dict(state);
  model.eval();
  return model;
}

Tensor tokens_of(const Tokens& tokens) { return from_vector(tokens, {std::ssize(tokens)}); }

// Greedy decoding by one pass over the last `context` tokens for each new one.
Tokens generate_without_cache(const Gpt& model, Tokens tokens, std::int64_t count) {
  const Tape::Pause pause;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto seen = std::min(std::ssize(tokens), std::ptrdiff_t{model.options().context});
    const Tensor logits = model(tokens_of(Tokens(tokens.end() - seen, tokens.end())));
    const std::vector<double> last = select(logits, 0, -1).to_vector();
    tokens.push_back(std::max_element(last.begin(), last.end()) - last.begin());
  }
  return tokens;
}

// Not one token again and again, with which anything would agree.
bool is_varied(const Tokens& tokens) {
  return std::set(tokens.end() - 50, tokens.end()).size() > 5;
}

}  // namespace

TEST_CASE("CACHE-1 Gpt's logits in parts are those of one pass, for all kinds of positions") {
  Generator generator(3);
  const Tensor tokens = randint(0, 97, {3, 9}, generator);
  const Tape::Pause pause;
  for (const GptPositions positions : all_positions) {
    CAPTURE(static_cast<int>(positions));
    for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
      GptOptions options = small_options(positions);
      options.path = path;
      const Gpt model = lively_gpt(options);
      const Tensor whole = model(tokens);
      for (const Dims& lengths : {Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}, Dims{4, 3, 2}}) {
        GptCache cache;
        std::int64_t at = 0;
        for (const std::int64_t length : lengths) {
          const Tensor logits = model.decode(narrow(tokens, 1, at, length), cache);
          CHECK(allclose(logits, narrow(whole, 1, at, length), 0, 1e-12));
          at += length;
        }
      }
    }
  }
}

TEST_CASE("greedy decoding of 200 tokens with the cache gives the tokens of the uncached run") {
  const Tokens prompt = {1, 2, 3, 4};
  const SampleOptions greedy{.temperature = 0};
  for (const GptPositions positions : all_positions) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(static_cast<int>(positions));
      CAPTURE(to_string(dtype));
      GptOptions options = small_options(positions, dtype);
      options.context = 204;
      std::uint64_t seed = 1;
      while (seed < 10 && !is_varied(lively_gpt(options, seed).generate(prompt, 200, greedy)))
        ++seed;
      REQUIRE(seed < 10);
      const Gpt model = lively_gpt(options, seed);
      const Tokens tokens = model.generate(prompt, 200, greedy);
      CHECK(tokens.size() == 204);
      CHECK(tokens == generate_without_cache(model, prompt, 200));
    }
  }
}

TEST_CASE("past the context, and for prompts that reach past it, the last tokens are the window") {
  for (const GptPositions positions : all_positions) {
    CAPTURE(static_cast<int>(positions));
    const Gpt model = lively_gpt(small_options(positions));
    const Tokens tokens = model.generate({1, 2, 3, 4}, 40, {.temperature = 0});
    CHECK(tokens == generate_without_cache(model, {1, 2, 3, 4}, 40));
    const Tokens prompt(tokens.begin(), tokens.begin() + 20);
    CHECK(model.generate(prompt, 5, {.temperature = 0}) ==
          Tokens(tokens.begin(), tokens.begin() + 25));
  }
}

TEST_CASE("only learned positions are parameters, and sinusoidal ones are added to scaled tokens") {
  for (const GptPositions positions : all_positions) {
    const Gpt model(small_options(positions));
    const StateDict state = model.state_dict();
    CHECK(std::any_of(state.begin(), state.end(), [](const NamedTensor& entry) {
            return entry.name == "position_embedding.weight";
          }) == (positions == GptPositions::learned));
  }
  // With the layers' branches at 0 the features are norm(embeddings).
  Gpt model = lively_gpt(small_options(GptPositions::sinusoidal));
  StateDict state = model.state_dict();
  for (NamedTensor& entry : state)
    if (entry.name.find("out_proj") != entry.name.npos ||
        entry.name.find("linear2") != entry.name.npos)
      entry.tensor = zeros_like(entry.tensor);
  model.load_state_dict(state);
  const Tape::Pause pause;
  const Tensor tokens = tokens_of({3, 1, 3});
  const Tensor embedded = model.token_embedding(tokens) * 4.0;  // sqrt(16)
  const Tensor expected =
      (*model.head)(model.norm(embedded + sinusoidal_positions(3, 16, 0, DType::f64)));
  CHECK(allclose(model(tokens), expected, 1e-13, 1e-13));
}

TEST_CASE("every kind of positions tells two orders of tokens apart, and all parameters count") {
  for (const GptPositions positions : all_positions) {
    CAPTURE(static_cast<int>(positions));
    const Gpt model = lively_gpt(small_options(positions));
    Tape tape;
    const Tensor one = select(model(tokens_of({1, 2, 3})), 0, -1);
    const Tensor two = select(model(tokens_of({2, 1, 3})), 0, -1);
    CHECK(!allclose(one, two, 1e-3, 1e-3));
    const Gradients g = tape.gradient(one, model.parameters(), randn({97}, DType::f64));
    for (const NamedTensor& parameter : model.named_parameters())
      CHECK_MESSAGE(g.reached(parameter.tensor), parameter.name);
  }
}

TEST_CASE(
    "an error in a later layer leaves Gpt's cache as it was, and decoding goes on from there") {
  const Gpt model = lively_gpt(small_options(GptPositions::learned));
  const Tape::Pause pause;
  const Tensor tokens = tokens_of({1, 2, 3});
  GptCache cache;
  model.decode(tokens, cache);
  const KeyValueCache second = cache[1];
  cache[1] = KeyValueCache();
  cache[1].append(zeros({1, 3, 3, 4}, DType::f64), zeros({1, 3, 3, 4}, DType::f64));  // 3 heads
  check_throws(ErrorKind::shape, {"KeyValueCache"}, [&] { model.decode(tokens, cache); });
  CHECK(cache[0].size() == 3);
  cache[1] = second;
  const Tensor whole = model(tokens_of({1, 2, 3, 4}));
  CHECK(allclose(model.decode(tokens_of({4}), cache), narrow(whole, 0, 3, 1), 0, 1e-12));
}

TEST_CASE("what does not fit a cache or the positions is an error") {
  const Gpt model = lively_gpt(small_options(GptPositions::rotary));
  const Tape::Pause pause;
  GptCache cache, foreign(3);
  const Tensor tokens = tokens_of({1, 2, 3, 4, 5, 6, 7});
  model.decode(tokens, cache);
  check_throws(ErrorKind::shape, {"(7)", "after 7", "context is 12"},
               [&] { model.decode(tokens, cache); });
  CHECK(cache[1].size() == 7);
  check_throws(ErrorKind::value, {"3 layers", "of 2"}, [&] { model.decode(tokens, foreign); });
  GptOptions options = small_options(GptPositions::sinusoidal);
  options.heads = options.dim = 3;
  options.kv_heads.reset();
  check_throws(ErrorKind::value, {"dim 3", "sinusoidal"}, [&] { Gpt{options}; });
  options.positions = GptPositions::rotary;
  check_throws(ErrorKind::value, {"1 features", "rotary"}, [&] { Gpt{options}; });
}
