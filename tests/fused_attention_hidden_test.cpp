// What is not finite does not pass between a query and a key that it does not see: fused attention
// over several tiles, for every kind of mask, in both directions.
#include "support/values.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/fused_attention.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace tapehead::tests {
namespace {

constexpr std::int64_t length = 150;  // three tiles
// Sums of up to 150 products, some in another order.
constexpr double tolerance = 1e-12;

// Which keys each query sees, by whatever reason.
struct Sight {
  const char* name;
  bool (*sees)(std::int64_t query, std::int64_t key);
};

constexpr bool is_blind(std::int64_t query) { return query == 3 || query == 100; }

constexpr Sight causal{"causal", [](std::int64_t i, std::int64_t j) { return j <= i; }};
constexpr Sight padding{"padding", [](std::int64_t, std::int64_t j) { return j < 70; }};
constexpr Sight left_padding{"left padding and causal",
                             [](std::int64_t i, std::int64_t j) { return j >= 5 && j <= i; }};
constexpr Sight documents{"documents",
                          [](std::int64_t i, std::int64_t j) { return i / 40 == j / 40; }};
constexpr Sight window{"window",
                       [](std::int64_t i, std::int64_t j) { return i - j < 20 && j - i < 20; }};
constexpr Sight blind_rows{"blind queries",
                           [](std::int64_t i, std::int64_t) { return !is_blind(i); }};

using Rows = std::vector<bool>;

Rows one(std::int64_t row) {
  Rows rows(length);
  rows[static_cast<std::size_t>(row)] = true;
  return rows;
}

Rows keys_seen_by(const Sight& sight, const Rows& queries) {
  Rows keys(length);
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < keys.size() && queries[i]; ++j)
      if (sight.sees(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j))) keys[j] = true;
  return keys;
}

Rows queries_that_see(const Sight& sight, std::int64_t key) {
  Rows queries(length);
  for (std::size_t i = 0; i < queries.size(); ++i)
    queries[i] = sight.sees(static_cast<std::int64_t>(i), key);
  return queries;
}

Tensor hidden_of(const Sight& sight) {
  std::vector<bool> hidden;
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < length; ++j) hidden.push_back(!sight.sees(i, j));
  return from_vector(hidden, {length, length});
}

struct Operands {
  Tensor q, k, v, dy;  // (1, 2, length, 4)
};

Operands random_operands() {
  Generator random(21);
  const auto leaf = [&] { return parameter(randn({1, 2, length, 4}, DType::f64, random)); };
  Operands x;
  x.q = leaf();
  x.k = leaf();
  x.v = leaf();
  x.dy = randn({1, 2, length, 4}, DType::f64, random);
  return x;
}

Operands poisoned(const Operands& clean, Tensor Operands::*which, std::int64_t row, double value) {
  Operands x = clean;
  Tensor copy = clone((clean.*which).detach());
  fill_(narrow(copy, 2, row, 1), value);
  x.*which = which == &Operands::dy ? copy : parameter(std::move(copy));
  return x;
}

struct Results {
  Tensor y, dq, dk, dv;
};

Results attend(const Operands& x, const FusedAttentionOptions& options, bool create_graph = false) {
  Tape tape;
  const Tensor y = fused_attention(x.q, x.k, x.v, options);
  const Gradients g = tape.gradient(y, {x.q, x.k, x.v}, x.dy, {.create_graph = create_graph});
  return {y.detach(), g[x.q].detach(), g[x.k].detach(), g[x.v].detach()};
}

// Every row but those that `touched` names is as it was.
void check_others(const Tensor& dirty, const Tensor& clean, const Rows& touched) {
  const Tensor mask = reshape(from_vector(touched, {length}), {length, 1});
  CHECK(allclose(masked_fill(dirty, mask, 0), masked_fill(clean, mask, 0), tolerance, tolerance));
}

void check_poisoned_query(const Sight& sight, const FusedAttentionOptions& options,
                          std::int64_t row, double value) {
  const Operands x = random_operands();
  const Results clean = attend(x, options);
  const Rows keys = keys_seen_by(sight, one(row));
  for (Tensor Operands::*which : {&Operands::q, &Operands::dy}) {
    const Results dirty = attend(poisoned(x, which, row, value), options);
    check_others(dirty.y, clean.y, one(row));
    check_others(dirty.dq, clean.dq, one(row));
    check_others(dirty.dk, clean.dk, keys);
    check_others(dirty.dv, clean.dv, keys);
  }
}

void check_poisoned_key(const Sight& sight, const FusedAttentionOptions& options, std::int64_t row,
                        double value) {
  const Operands x = random_operands();
  const Results clean = attend(x, options);
  const Rows queries = queries_that_see(sight, row);
  const Rows keys = keys_seen_by(sight, queries);
  for (Tensor Operands::*which : {&Operands::k, &Operands::v}) {
    const Results dirty = attend(poisoned(x, which, row, value), options);
    check_others(dirty.y, clean.y, queries);
    check_others(dirty.dq, clean.dq, queries);
    check_others(dirty.dk, clean.dk, keys);
    check_others(dirty.dv, clean.dv, keys);
  }
}

void check(const Sight& sight, const FusedAttentionOptions& options) {
  CAPTURE(sight.name);
  for (const double value : {not_a_number, infinity})
    for (const std::int64_t row : {std::int64_t{3}, std::int64_t{100}, length - 1}) {
      CAPTURE(value);
      CAPTURE(row);
      check_poisoned_query(sight, options, row, value);
      check_poisoned_key(sight, options, row, value);
    }
}

}  // namespace

TEST_CASE("NaN and infinity do not pass between a query and a key hidden from it, in any mask") {
  for (const Sight& sight : {causal, padding, left_padding, documents, window, blind_rows})
    check(sight, {.hidden = hidden_of(sight)});
}

TEST_CASE("NaN and infinity do not pass what a causal offset or -infinity in bias hides") {
  check(causal, {.causal_offset = 0});
  const Tensor bias =
      masked_fill(zeros({length, length}, DType::f64), hidden_of(window), -infinity);
  check(window, {.bias = bias});
}

TEST_CASE("a NaN in a query that sees nothing stays out of gradients, recorded or not") {
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    const FusedAttentionOptions options{.hidden = hidden_of(blind_rows)};
    const Operands x = random_operands();
    const Results clean = attend(x, options);
    for (Tensor Operands::*which : {&Operands::q, &Operands::dy}) {
      const Results dirty = attend(poisoned(x, which, 100, not_a_number), options, create_graph);
      for (Tensor Results::*part : {&Results::y, &Results::dq, &Results::dk, &Results::dv})
        check_others(dirty.*part, clean.*part, Rows(length));
      CHECK(equal(select(dirty.dq, 2, 100), zeros({1, 2, 4}, DType::f64)));
    }
  }
}

TEST_CASE("grouped heads: a NaN in a query of one head that sees nothing there stays out") {
  Generator random(22);
  const Tensor k = parameter(randn({1, 2, 70, 4}, DType::f64, random));
  Tensor values = randn({1, 4, 70, 4}, DType::f64, random);
  const Tensor seed = randn({1, 4, 70, 4}, DType::f64, random);
  fill_(narrow(narrow(values, 1, 1, 1), 2, 9, 1), not_a_number);
  const Tensor q = parameter(std::move(values));
  const Tensor hidden = zeros({4, 70, 1}, DType::boolean);
  fill_(narrow(narrow(hidden, 0, 1, 1), 1, 9, 1), 1);
  for (const bool create_graph : {false, true}) {
    CAPTURE(create_graph);
    Tape tape;
    const Tensor y = fused_attention(q, k, k, {.hidden = hidden});
    const Gradients g = tape.gradient(y, {q, k}, seed, {.create_graph = create_graph});
    for (const Tensor& x : {q, k})
      for (const double value : g[x].detach().to_vector()) CHECK(value == value);
  }
}

}  // namespace tapehead::tests
