// fill_ and copy_: who may be written to, overlap, and versions.
#include "support/checks.h"

#include <tapehead/core/tape.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare_values.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>
#include <tapehead/ops/write.h>

#include <doctest/doctest.h>

using namespace tapehead;
using tapehead::tests::check_throws;

TEST_CASE("INPL-1 an expanded tensor is not written to") {
  const Tensor a = tensor({{1}}, DType::f64), b = expand(a, {4, 5});
  check_throws(ErrorKind::value, {"fill_", "expanded", "clone()"}, [&] { fill_(b, 3); });
  check_throws(ErrorKind::value, {"copy_", "expanded"}, [&] {
    copy_(b, ones({4, 5}, DType::f64));
  });
  CHECK(a.item() == 1);
  fill_(expand(a, {1, 1}), 2);  // nothing is repeated
  CHECK(a.item() == 2);
}

TEST_CASE("INPL-2 a source that overlaps is read before anything is written") {
  const Tensor x = tensor({1, 2, 3, 4, 5}, DType::f64);
  copy_(narrow(x, 0, 1, 4), narrow(x, 0, 0, 4));
  CHECK(equal(x, tensor({1, 1, 2, 3, 4}, DType::f64)));
  const Tensor square = reshape(arange(0, 9, 1, DType::f64), {3, 3});
  copy_(square, transpose(square, 0, 1));
  CHECK(equal(square, tensor({{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}, DType::f64)));
}

TEST_CASE("copy_ broadcasts and converts, into strided windows too") {
  const Tensor x = zeros({2, 4}), columns = slice(x, 1, 0, {}, 2);
  copy_(columns, tensor({7, 8}, DType::i64));
  CHECK(equal(x, tensor({{7, 0, 8, 0}, {7, 0, 8, 0}})));
  fill_(columns, -1);
  CHECK(equal(x, tensor({{-1, 0, -1, 0}, {-1, 0, -1, 0}})));
  check_throws(ErrorKind::shape, {"copy_", "(3, 2, 4)", "(2, 4)"}, [&] {
    copy_(x, ones({3, 2, 4}));
  });
}

TEST_CASE("a write makes what was saved stale") {
  Tape tape;
  const Tensor x = parameter(tensor({2, 3}, DType::f64));
  const Tensor factor = tensor({5, 7}, DType::f64);
  const Tensor y = mul(x, factor);
  const auto version = factor.storage()->version();
  fill_(narrow(factor, 0, 1, 1), 0);
  CHECK(factor.storage()->version() == version + 1);
  check_throws(ErrorKind::state, {"mul", "version"},
               [&] { tape.gradient(y, {x}, ones({2}, DType::f64)); });
}

TEST_CASE("what takes part in gradients is written to outside the tape only") {
  const Tensor w = parameter(ones({2}, DType::f64));
  fill_(w, 3);
  Tape tape;
  const Tensor y = mul(w, w), constant = zeros({2}, DType::f64);
  check_throws(ErrorKind::state, {"fill_", "Pause"}, [&] { fill_(w, 1); });
  check_throws(ErrorKind::state, {"copy_"}, [&] { copy_(y, constant); });
  check_throws(ErrorKind::state, {"copy_", "gradient"}, [&] { copy_(constant, y); });
  copy_(constant, y.detach());
  CHECK(equal(constant, full({2}, 9, DType::f64)));
  const Tape::Pause pause;
  fill_(w, 4);
  CHECK(equal(w, full({2}, 4, DType::f64)));
}
