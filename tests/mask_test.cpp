// Masks: which keys each hides, how they combine, how small they stay.
#include "support/checks.h"
#include "support/tensors.h"

#include <tapehead/core/dry_run.h>
#include <tapehead/nn/attention.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <limits>

using namespace tapehead;
using namespace tapehead::nn;
using tests::boolean;
using tests::check_throws;
using tests::f64;

namespace {

using Values = std::vector<double>;

Tensor ids(const std::vector<std::int64_t>& numbers, const Shape& shape) {
  return from_vector(numbers, shape);
}

}  // namespace

// ---- causal, padding, keep, hide, and what all have in common -----------------------------------

TEST_CASE("a mask prints as a grid and lists the queries that see nothing") {
  CHECK(Mask::causal().grid({3, 3}) ==
        ". x x\n"
        ". . x\n"
        ". . .\n");
  const Mask left_padded = Mask::causal() & Mask::padding(boolean({1, 1, 0, 0, 0}));
  CHECK(left_padded.grid({5, 5}) ==
        "x x x x x\n"
        "x x x x x\n"
        "x x . x x\n"
        "x x . . x\n"
        "x x . . .\n"
        "queries that see nothing: 0, 1\n");
  CHECK(Mask::padding({2, 1}).grid({2, 1, 1, 2}) == "matrix 0:\n. .\nmatrix 1:\n. x\n");
  CHECK(Mask().grid({1, 2}) == ". .\n");
}

TEST_CASE("ATTN-3 a causal mask over different numbers of queries and keys must be aligned") {
  check_throws(ErrorKind::shape, {"1 queries", "3 keys", "bottom_right"}, [] {
    Mask::causal().hidden({1, 3});
  });
  CHECK(Mask::causal(Align::bottom_right).grid({2, 3}) == ". . x\n. . .\n");
  CHECK(Mask::causal(Align::top_left).grid({2, 3}) == ". x x\n. . x\n");
  CHECK(Mask::causal(1).grid({2, 3}) == ". . x\n. . .\n");
  CHECK(Mask::causal(Align::bottom_right).grid({3, 2}) ==
        "x x\n. x\n. .\nqueries that see nothing: 0\n");

  const Tensor v = f64({{1}, {2}, {6}}), k = zeros({3, 1}, DType::f64);
  const auto attend = [&](std::int64_t queries, Align align) {
    return attention(zeros({queries, 1}, DType::f64), k, v, {.mask = Mask::causal(align)})
        .to_vector();
  };
  CHECK(attend(1, Align::bottom_right) == Values{3});
  CHECK(attend(2, Align::bottom_right) == Values{1.5, 3});
  CHECK(attend(1, Align::top_left) == Values{1});
  CHECK(attend(2, Align::top_left) == Values{1, 1.5});
}

TEST_CASE("ATTN-1 keep and hide say what true means") {
  const Tensor zero = zeros({1, 1}, DType::f64), keys = zeros({2, 1}, DType::f64);
  const Tensor v = f64({{10}, {20}}), mask = boolean({1, 0});
  CHECK(attention(zero, keys, v, {.mask = Mask::keep(mask)}).item() == 10);
  CHECK(attention(zero, keys, v, {.mask = Mask::hide(mask)}).item() == 20);
  CHECK(attention(zero, keys, v, {.mask = Mask::padding(mask)}).item() == 20);
}

TEST_CASE("masks combine: & needs both to let a key be seen, | needs one") {
  const Mask left = Mask::keep(boolean({{1, 0}, {1, 1}})), right = Mask::keep(boolean({1, 0}));
  CHECK((left & right).grid({2, 2}) == ". x\n. x\n");
  CHECK((left | right).grid({2, 2}) == ". x\n. .\n");
  CHECK((Mask() & left).grid({2, 2}) == left.grid({2, 2}));
  CHECK((left | Mask()).hides_nothing());
  CHECK((Mask() & Mask()).hides_nothing());
}

TEST_CASE("masks stay as small as broadcasting allows") {
  const Shape scores{4, 8, 6, 6};
  CHECK(Mask::causal().hidden(scores).shape() == Shape{6, 6});
  CHECK(Mask::padding({1, 2, 3, 6}).hidden(scores).shape() == Shape{4, 1, 1, 6});
  CHECK((Mask::causal() & Mask::padding({1, 2, 3, 6})).hidden(scores).shape() == Shape{4, 1, 6, 6});
  CHECK(!Mask().hidden(scores).defined());
}

TEST_CASE("a prepared mask is made once for its shape, and anew for others") {
  const Mask mask = Mask::causal().prepared({2, 2, 3, 3});
  CHECK(mask.hidden({2, 2, 3, 3}).storage() == mask.hidden({2, 2, 3, 3}).storage());
  CHECK(mask.hidden({4, 4}).shape() == Shape{4, 4});
  CHECK(Mask().prepared({2, 2}).hides_nothing());
  const auto storage_of = [](const Mask& m) { return m.parts({2, 2, 3, 3}).hidden.storage(); };
  const Mask first_planned = Mask::window(2).prepared({2, 2, 3, 3});
  {
    const DryRun dry;
    CHECK(first_planned.hidden({2, 2, 3, 3}).storage()->is_dry());
  }
  CHECK(first_planned.hidden({2, 2, 3, 3}).to_vector<bool>().size() == 9);
  const Mask window = Mask::window(2).prepared({2, 2, 3, 3});
  CHECK(storage_of(window) == window.hidden({2, 2, 3, 3}).storage());
  const Mask both = (Mask::causal() & Mask::padding({1, 3})).prepared({2, 2, 3, 3});
  CHECK(storage_of(both) == storage_of(both));
  CHECK(both.parts({2, 2, 3, 3}).hidden.shape() == Shape{2, 1, 1, 3});
}

TEST_CASE("masks that do not fit are errors that say why") {
  const Tensor floats = zeros({2, 2});
  check_throws(ErrorKind::dtype, {"may_attend"}, [&] { Mask::keep(floats); });
  check_throws(ErrorKind::dtype, {"is_hidden"}, [&] { Mask::hide(floats); });
  check_throws(ErrorKind::dtype, {"is_padding"}, [&] { Mask::padding(floats); });
  check_throws(ErrorKind::shape, {"(2, 3)", "(4, 4)"}, [] {
    Mask::hide(zeros({2, 3}, DType::boolean)).hidden({4, 4});
  });
  // A batch of masks is not taken for heads.
  check_throws(ErrorKind::shape, {"(2, 3, 3)", "rank"}, [] {
    Mask::hide(zeros({2, 3, 3}, DType::boolean)).hidden({2, 2, 3, 3});
  });
  check_throws(ErrorKind::shape, {"length 4"}, [] { Mask::padding({4}).hidden({1, 3, 3}); });
  check_throws(ErrorKind::value, {"length -1"}, [] { Mask::padding({-1}); });
  check_throws(ErrorKind::shape, {"batch"}, [] { Mask::padding({1}).hidden({3, 3}); });
  for (const auto& lengths : std::vector<std::vector<std::int64_t>>{{1, 2}, {3}})
    check_throws(
        ErrorKind::shape,
        {std::to_string(lengths.size()) + " lengths", "5 sequences", "scores (5, 2, 3, 3)"}, [&] {
          Mask::padding(lengths).hidden({5, 2, 3, 3});
        });
  check_throws(ErrorKind::value, {"offset -1"}, [] { Mask::causal(-1); });
  check_throws(ErrorKind::shape, {"(3)"}, [] { Mask::causal().hidden({3}); });
}

// ---- windows, prefixes, documents ---------------------------------------------------------------

TEST_CASE("a window shows what is less than its width away") {
  CHECK(Mask::window(2).grid({4, 4}) ==
        ". . x x\n"
        ". . . x\n"
        "x . . .\n"
        "x x . .\n");
  CHECK((Mask::causal() & Mask::window(2)).grid({4, 4}) ==
        ". x x x\n"
        ". . x x\n"
        "x . . x\n"
        "x x . .\n");
  CHECK(Mask::window(1).grid({2, 2}) == ". x\nx .\n");
  CHECK(Mask::window(9).grid({2, 2}) == ". .\n. .\n");
}

TEST_CASE("a window over different numbers of queries and keys must be placed") {
  check_throws(ErrorKind::shape, {"Mask::window", "2 queries", "4 keys", "bottom_right"}, [] {
    Mask::window(2).hidden({2, 4});
  });
  CHECK(Mask::window(2, Align::bottom_right).grid({2, 4}) == "x . . .\nx x . .\n");
  CHECK(Mask::window(2, Align::top_left).grid({2, 4}) == ". . x x\n. . . x\n");
  CHECK(Mask::window(2, 1).grid({2, 4}) == ". . . x\nx . . .\n");
}

TEST_CASE("a window or triangle that is placed far away, or is wide, is the plain limit") {
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const Shape scores{3, 5};
  const Tensor none = zeros(scores, DType::boolean), all = ones(scores, DType::boolean);
  const auto hidden = [&](const Mask& mask) { return expand(mask.hidden(scores), scores); };
  CHECK(equal(hidden(Mask::causal(far)), none));
  CHECK(equal(hidden(Mask::window(far, Align::bottom_right)), none));
  CHECK(equal(hidden(Mask::window(far, 2)), none));
  CHECK(equal(hidden(Mask::window(1, far)), all));
  CHECK(equal(hidden(Mask::window(1, far - 1)), all));
  // Queries stand at far - 1, far and far + 1: they see the keys above -1, 0 and 1.
  const Mask edge = Mask::window(far, far - 1);
  CHECK(edge.grid(scores) == ". . . . .\nx . . . .\nx x . . .\n");
}

TEST_CASE("a prefix is seen by every query, and completes a causal mask") {
  CHECK(Mask::prefix(1).grid({2, 3}) == ". x x\n. x x\n");
  CHECK((Mask::causal() | Mask::prefix(2)).grid({4, 4}) ==
        ". . x x\n"
        ". . x x\n"
        ". . . x\n"
        ". . . .\n");
  CHECK(Mask::prefix(5).grid({1, 3}) == ". . .\n");
  CHECK(Mask::prefix(0).grid({1, 2}) == "x x\nqueries that see nothing: 0\n");
}

TEST_CASE("documents packed into a row do not see each other") {
  CHECK(Mask::documents(ids({7, 7, 3}, {3})).grid({3, 3}) ==
        ". . x\n"
        ". . x\n"
        "x x .\n");
  CHECK((Mask::documents(ids({0, 0, 1, 1}, {2, 2})) & Mask::causal()).grid({2, 1, 2, 2}) ==
        "matrix 0:\n. x\n. .\nmatrix 1:\n. x\n. .\n");
  CHECK(Mask::documents(ids({0, 0, 0, 1}, {2, 2})).grid({2, 1, 2, 2}) ==
        "matrix 0:\n. .\n. .\nmatrix 1:\n. x\nx .\n");
}

TEST_CASE("attention over packed documents is attention over each") {
  Generator generator(1);
  const Tensor x = randn({5, 3}, DType::f64, generator);
  const Mask packed = Mask::causal() & Mask::documents(ids({4, 4, 9, 9, 9}, {5}));
  const auto attend = [](const Tensor& of, const Mask& mask, AttentionPath path) {
    return attention(of, of, of, {.mask = mask, .path = path});
  };
  for (const AttentionPath path : {AttentionPath::composed, AttentionPath::fused}) {
    const Tensor all = attend(x, packed, path);
    const auto alone = [&](std::int64_t start, std::int64_t length) {
      return attend(narrow(x, 0, start, length), Mask::causal(), path);
    };
    // Weights of exactly 0 may change the order of the sums: a few roundings.
    CHECK(allclose(narrow(all, 0, 0, 2), alone(0, 2), 1e-14, 1e-14));
    CHECK(allclose(narrow(all, 0, 2, 3), alone(2, 3), 1e-14, 1e-14));
  }
}

TEST_CASE("windows, prefixes and documents stay as small as broadcasting allows") {
  const Shape scores{4, 8, 6, 6};
  CHECK(Mask::window(2).hidden(scores).shape() == Shape{6, 6});
  CHECK(Mask::prefix(2).hidden(scores).shape() == Shape{6});
  CHECK(Mask::documents(zeros({6}, DType::i64)).hidden(scores).shape() == Shape{6, 6});
  CHECK(Mask::documents(zeros({4, 6}, DType::i64)).hidden(scores).shape() == Shape{4, 1, 6, 6});
}

TEST_CASE("masks of windows, prefixes and documents that cannot be are errors") {
  check_throws(ErrorKind::value, {"width 0"}, [] { Mask::window(0); });
  check_throws(ErrorKind::value, {"width -1"}, [] { Mask::window(-1, Align::top_left); });
  check_throws(ErrorKind::value, {"offset -1"}, [] { Mask::window(1, -1); });
  check_throws(ErrorKind::value, {"length -1"}, [] { Mask::prefix(-1); });
  check_throws(ErrorKind::dtype, {"ids"}, [] { Mask::documents(zeros({2})); });
  check_throws(ErrorKind::shape, {"ids (1, 1, 2)"}, [] {
    Mask::documents(zeros({1, 1, 2}, DType::i64));
  });
  const auto unfit = [](const Shape& of_ids, const Shape& scores) {
    check_throws(ErrorKind::shape, {"Mask::documents", to_string(scores)},
                 [&] { Mask::documents(zeros(of_ids, DType::i64)).hidden(scores); });
  };
  unfit({3}, {3, 4});
  unfit({3}, {4, 3});
  unfit({2, 3}, {3, 3});
  unfit({2, 3}, {5, 1, 3, 3});
}
