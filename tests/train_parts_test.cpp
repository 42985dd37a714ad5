// The parts of `tapehead train`, as functions: text, bigram model, batches, held-out loss, options.
#include "support/checks.h"
#include "support/folder.h"

#include "../tools/program/repository.h"
#include "../tools/program/train/batches.h"
#include "../tools/program/train/bigram.h"
#include "../tools/program/train/corpus.h"
#include "../tools/program/train/evaluate.h"
#include "../tools/program/train/memory_need.h"
#include "../tools/program/train/options.h"
#include "../tools/program/train/progress.h"
#include "../tools/program/train/sampling.h"
#include "../tools/program/train/trainer.h"
#include "../tools/program/utf8.h"

#include <tapehead/core/memory.h>
#include <tapehead/ops/cross_entropy.h>
#include <tapehead/ops/loss.h>
#include <tapehead/ops/windows.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

using namespace tapehead;
using namespace tapehead::program;
using tests::check_throws;

namespace {

namespace fs = std::filesystem;

Corpus corpus_of(const std::vector<std::string>& texts) {
  const tests::Folder folder;
  std::vector<fs::path> files;
  for (const std::string& text : texts) {
    files.push_back(folder.file(std::to_string(files.size()).c_str()));
    std::ofstream(files.back(), std::ios::binary) << text;
  }
  return read_corpus(files);
}

std::string as_text(const Vocabulary& vocabulary, const std::vector<Token>& tokens) {
  return vocabulary.decode(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
}

std::vector<Token> some_text(std::size_t length, Token kinds) {
  std::vector<Token> text;
  for (std::size_t i = 0; i < length; ++i)
    text.push_back(static_cast<Token>((i * i + i / 3) % static_cast<std::size_t>(kinds)));
  return text;
}

nn::Gpt small_model(std::int64_t context) {
  Generator generator(1);
  return nn::Gpt(
      {.vocab_size = 5, .context = context, .layers = 1, .heads = 1, .dim = 4, .dtype = DType::f64},
      generator);
}

}  // namespace

// ---- UTF-8 --------------------------------------------------------------------------------------

TEST_CASE("every code point goes to UTF-8 and back") {
  std::string text;
  std::vector<char32_t> all;
  for (char32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    append_utf8(text, c);
    all.push_back(c);
  }
  CHECK(decode_utf8(text, "text") == all);
  CHECK(decode_utf8("a\xc3\xa9\xe5\xb1\xa4\xf0\x9f\x98\x80", "text") ==
        std::vector<char32_t>{'a', 0xe9, 0x5c64, 0x1f600});
}

TEST_CASE("what is not UTF-8 is refused at its byte") {
  for (const std::string bad :
       {"\xff", "\x80", "\xc3", "\xc3(", "\xe5\xb1", "\xf0\x9f\x98", "\xc0\x80", "\xe0\x80\x80",
        "\xf0\x80\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"})
    check_throws(ErrorKind::value, {"file.txt: not UTF-8 at byte 2"},
                 [&] { (void)decode_utf8("ok" + bad, "file.txt"); });
}

// ---- the corpus ---------------------------------------------------------------------------------

TEST_CASE(
    "the last tenth of every file is held out, and the vocabulary is that of the whole text") {
  const Corpus corpus = corpus_of({"abcdefghijABCDEFGHIJ",
                                   "\xef\xbb\xbf"
                                   "0123456789"});
  CHECK(as_text(corpus.vocabulary, corpus.train) == "abcdefghijABCDEFGH012345678");
  CHECK(as_text(corpus.vocabulary, corpus.held_out) == "IJ9");
  CHECK(corpus.vocabulary.size() == 30);
  CHECK(corpus.vocabulary.characters() == "0123456789ABCDEFGHIJabcdefghij");
}

TEST_CASE("the checksum tells texts apart") {
  const std::uint64_t one = corpus_of({"some text, long enough"}).checksum;
  CHECK(corpus_of({"some text, long enough"}).checksum == one);
  CHECK(corpus_of({"some text, long Enough"}).checksum != one);
}

TEST_CASE("the repository is there to train on, without its build trees") {
  const std::vector<fs::path> files = repository_files();
  const auto has = [&](const std::string& part) {  // also where the checkout lies below a /build
    return std::any_of(files.begin(), files.end(), [&](const fs::path& file) {
      const fs::path inside = file.lexically_relative(TAPEHEAD_SOURCE_DIR);
      return ("/" + inside.generic_string()).find(part) != std::string::npos;
    });
  };
  CHECK(has("/core/tape.h"));
  CHECK(has("/tests/train_parts_test.cpp"));
  CHECK_FALSE(has("/build"));
  CHECK_FALSE(has("/.git"));
  CHECK(std::is_sorted(files.begin(), files.end()));
}

// ---- the bigram model ---------------------------------------------------------------------------

TEST_CASE("the bigram model has the probabilities of its formula") {
  // 0 1 0 1 0 0: followed by 1 twice and by 0 once, of two kinds. p(0) = 5/8, p(1) = 3/8.
  const std::vector<Token> text = {0, 1, 0, 1, 0, 0};
  const Bigram bigram(text, 2);
  const auto p = [&](Token a, Token b) { return std::exp(-bigram.loss(std::vector<Token>{a, b})); };
  // 1e-14: a few roundings of numbers near 1.
  CHECK(p(0, 1) == doctest::Approx((2 + 2 * 3.0 / 8) / 5).epsilon(1e-14));
  CHECK(p(0, 0) == doctest::Approx((1 + 2 * 5.0 / 8) / 5).epsilon(1e-14));
  CHECK(p(1, 1) == doctest::Approx((0 + 1 * 3.0 / 8) / 3).epsilon(1e-14));
}

TEST_CASE("the bigram model's probabilities add up to 1 after every character") {
  const Token kinds = 7;
  std::vector<Token> text = some_text(50, 5);  // two kinds never occur
  const Bigram bigram(text, kinds);
  for (Token a = 0; a < kinds; ++a) {
    double sum = 0;
    for (Token b = 0; b < kinds; ++b) sum += std::exp(-bigram.loss(std::vector<Token>{a, b}));
    CHECK(sum == doctest::Approx(1).epsilon(1e-14));
  }
}

// ---- batches ------------------------------------------------------------------------------------

TEST_CASE("targets are the characters that follow") {
  const std::vector<Token> text = some_text(40, 6);
  const Batch batch = RandomBatches(text, 3, 8, 5).at(2);
  CHECK(batch.inputs.shape() == Shape{3, 8});
  CHECK(batch.targets.shape() == Shape{3, 8});
  const auto x = batch.inputs.to_vector<std::int64_t>(),
             y = batch.targets.to_vector<std::int64_t>();
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i + 1 < 8; ++i) CHECK(y[row * 8 + i] == x[row * 8 + i + 1]);
}

TEST_CASE("a batch is a function of seed and step, and every window can be drawn") {
  std::vector<Token> text(20);
  std::iota(text.begin(), text.end(), 0);
  const RandomBatches batches(text, 4, 16, 5);
  const auto first = [](const Batch& batch) { return batch.inputs.to_vector<std::int64_t>(); };
  CHECK(first(batches.at(7)) == first(RandomBatches(text, 4, 16, 5).at(7)));
  CHECK(first(batches.at(7)) != first(batches.at(8)));
  CHECK(first(batches.at(7)) != first(RandomBatches(text, 4, 16, 6).at(7)));
  std::set<std::int64_t> starts;
  for (int step = 0; step < 50; ++step)
    for (std::int64_t row = 0; row < 4; ++row)
      starts.insert(select(select(batches.at(step).inputs, 0, row), 0, 0).item<std::int64_t>());
  CHECK(starts == std::set<std::int64_t>{0, 1, 2, 3});
}

// ---- the held-out loss --------------------------------------------------------------------------

TEST_CASE("the held-out loss counts every character but the first once") {
  const nn::Gpt model = small_model(4);
  const std::vector<Token> text = some_text(4 * 3 + 2 + 1, 5);  // three windows and a rest of two
  double sum = 0;
  for (const auto& [start, length] : {std::pair{0, 4}, {4, 4}, {8, 4}, {12, 2}}) {
    const std::int64_t starts[] = {start};
    const Batch batch = windows(text, starts, length);
    sum += cross_entropy(select(model(batch.inputs), 0, 0), select(batch.targets, 0, 0),
                         {.reduction = Reduction::sum})
               .item();
  }
  // Batches of another size add the same numbers in another order.
  CHECK(held_out_loss(model, text, 1) == doctest::Approx(sum / 14).epsilon(1e-12));
  CHECK(held_out_loss(model, text, 2) == doctest::Approx(sum / 14).epsilon(1e-12));
  CHECK(held_out_loss(model, std::span(text).first(3), 2) > 0);  // shorter than one window
}

TEST_CASE("a limited held-out loss takes whole windows, evenly spread") {
  const nn::Gpt model = small_model(4);
  const std::vector<Token> text = some_text(4 * 6 + 1, 5);
  double sum = 0;
  for (const std::int64_t start : {0, 12})
    sum += held_out_loss(model, std::span(text).subspan(static_cast<std::size_t>(start), 5), 1);
  CHECK(held_out_loss(model, text, 8, 2) == doctest::Approx(sum / 2).epsilon(1e-12));
}

TEST_CASE("a sample begins after the prompt's characters and has the length asked for") {
  const nn::Gpt model = small_model(4);
  const Vocabulary vocabulary(std::vector<char32_t>{'a', 'b', 'c', 'd', 0xe9});
  Generator generator(1);
  const std::string text = sample_text(model, vocabulary, "ab\xc3\xa9", 10, {}, generator);
  CHECK(text.starts_with("ab\xc3\xa9"));
  CHECK(decode_utf8(text, "text").size() == 13);
  CHECK(decode_utf8(sample_text(model, vocabulary, {}, 10, {}, generator), "text").size() == 10);
}

// ---- memory -------------------------------------------------------------------------------------

TEST_CASE("what a step is said to need at least is what it takes, up to the clipping's scraps") {
  const Corpus corpus = corpus_of({std::string(200, 'a') + std::string(200, 'b')});
  for (const std::int64_t layers : {1, 2, 3, 8})
    for (const std::int64_t batch : {1, 40}) {
      CAPTURE(layers);
      CAPTURE(batch);
      const TrainOptions options{.layers = layers, .dim = 32, .context = 16, .batch = batch};
      const std::int64_t before = memory_stats().live;
      reset_peak();
      Trainer trainer({.options = options, .characters = corpus.vocabulary.characters()}, corpus);
      trainer.step();
      const std::int64_t taken = memory_stats().peak - before;
      const std::int64_t needed = least_training_bytes(options, corpus.vocabulary.size());
      CHECK(needed <= taken);
      CHECK(needed >= taken - 1024);
    }
}

TEST_CASE("needs that no number holds are the largest one, or an error that names the sizes") {
  const TrainOptions deep{.layers = std::int64_t{1} << 60};
  CHECK(least_training_bytes(deep, 10) == std::numeric_limits<std::int64_t>::max());
  const TrainOptions wide{.dim = std::int64_t{1} << 40};
  check_throws(ErrorKind::value, {"--layers 4 --dim 1099511627776 --context 112", "63 bits"},
               [&] { (void)least_training_bytes(wide, 10); });
  check_throws(ErrorKind::value, {"--batch 8: a step needs at least 9,223,372,036,854,775,807"},
               [&] { check_memory(deep, 10); });
}

// ---- options and progress -----------------------------------------------------------------------

TEST_CASE("options come back from their stored form") {
  TrainOptions options;
  options.text = {"a.txt", "b \"c\".txt"};
  options.dim = 64;
  options.lr = 0.1;
  options.minutes = 1.0 / 3;
  const TrainOptions back = train_options_from_json(to_json(options), "file");
  CHECK(to_json(back) == to_json(options));
  options.steps = 7;
  CHECK(train_options_from_json(to_json(options), "file").steps == 7);
  nlohmann::json stored = to_json(options);
  stored.erase("seed");
  check_throws(ErrorKind::value, {"file", "seed"},
               [&] { (void)train_options_from_json(stored, "file"); });
  stored = to_json(options);
  stored.erase("dropout");  // as earlier versions wrote it
  CHECK(train_options_from_json(stored, "file").dropout == 0);
  stored["dropout"] = 1;
  check_throws(ErrorKind::value, {"--dropout 1: it must be at least 0 and below 1"},
               [&] { (void)train_options_from_json(stored, "file"); });
  stored = to_json(options);
  stored["heads"] = 5;
  check_throws(ErrorKind::value, {"--heads 5"},
               [&] { (void)train_options_from_json(stored, "file"); });
  for (const char* name :
       {"layers", "heads", "dim", "context", "batch", "seed", "threads", "steps"})
    for (const double number : {2.5, 1e300}) {  // which no integer holds
      stored = to_json(options);
      stored[name] = number;
      check_throws(ErrorKind::value, {"file", name, "is " + stored[name].dump() + ", not a"},
                   [&] { (void)train_options_from_json(stored, "file"); });
    }
}

TEST_CASE("a line of progress shows what is known") {
  CHECK(describe(Status{.step = 3, .loss = 2.5}) == "step 3  loss 2.5000");
  CHECK(describe(Status{.step = 120,
                        .total = 2000,
                        .loss = 1.8312,
                        .held_out = 1.9,
                        .tokens_per_second = 6123.4,
                        .seconds_left = 151}) ==
        "step 120/2000  loss 1.8312  held-out sample 1.9000  6123 tokens/s  2:31 left");
  CHECK(describe(Status{.step = 1, .total = 2, .loss = 1, .seconds_left = 3751}) ==
        "step 1/2  loss 1.0000  1:02:31 left");
}
