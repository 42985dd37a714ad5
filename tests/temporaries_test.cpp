// What operations make of temporaries outside a tape: the only handle to its values, whichever
// operation, so that parameter() takes it.
#include <tapehead/core/tape.h>
#include <tapehead/ops/activations.h>
#include <tapehead/ops/binary.h>
#include <tapehead/ops/create.h>
#include <tapehead/ops/index.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/layer_norm.h>
#include <tapehead/ops/masked.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/random.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/softmax.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

#include <doctest/doctest.h>

namespace tapehead::tests {
namespace {

Tensor x() { return ones({2, 3}); }
Tensor mask() { return zeros({2, 3}, DType::boolean); }
Tensor index() { return zeros({1}, DType::i64); }

}  // namespace

TEST_CASE("functions of one or two temporaries give parameter() the only handle") {
  CHECK(parameter(add(x(), x())).is_leaf());
  CHECK(parameter(sub(x(), x())).is_leaf());
  CHECK(parameter(mul(x(), x())).is_leaf());
  CHECK(parameter(div(x(), x())).is_leaf());
  CHECK(parameter(x() + x() * x() - 2 / x()).is_leaf());
  CHECK(parameter(maximum(x(), x())).is_leaf());
  CHECK(parameter(pow(x(), x())).is_leaf());
  CHECK(parameter(pow(x(), 2)).is_leaf());
  CHECK(parameter(where(mask(), x(), x())).is_leaf());
  CHECK(parameter(where(mask(), x(), 1)).is_leaf());
  CHECK(parameter(where(mask(), 1, x())).is_leaf());
  CHECK(parameter(relu(x())).is_leaf());
  CHECK(parameter(gelu(x())).is_leaf());
  CHECK(parameter(clamp(x(), 0, 1)).is_leaf());
  CHECK(parameter(masked_fill(x(), mask(), 0)).is_leaf());
  CHECK(parameter(tril(x())).is_leaf());
  CHECK(parameter(dropout(x(), 0.5)).is_leaf());
  CHECK(parameter(dropout(x(), 0)).is_leaf());
  CHECK(parameter(to(x(), DType::f64)).is_leaf());
  CHECK(parameter(to(x(), DType::f32)).is_leaf());
}

TEST_CASE("normalisations, sums, products and indexing of temporaries do so too") {
  CHECK(parameter(softmax(x(), 1)).is_leaf());
  CHECK(parameter(log_softmax(x(), 0)).is_leaf());
  CHECK(parameter(softmax_backward(x(), x(), 0)).is_leaf());
  CHECK(parameter(layer_norm(x(), {3})).is_leaf());
  CHECK(parameter(sum(x(), {0})).is_leaf());
  CHECK(parameter(sum_to(x(), {2, 3})).is_leaf());
  CHECK(parameter(matmul(x(), transpose(x(), 0, 1))).is_leaf());
  CHECK(parameter(index_add(x(), 0, index(), ones({1, 3}))).is_leaf());
  CHECK(parameter(scatter_add(x(), 0, zeros({2, 3}, DType::i64), x())).is_leaf());
  CHECK(parameter(index_select(x(), 0, index())).is_leaf());
  CHECK(parameter(cat({x(), x()})).is_leaf());
  CHECK(parameter(clone(x())).is_leaf());
  CHECK(parameter(contiguous(x())).is_leaf());
}

TEST_CASE("so do views of a temporary, and one that somebody else holds is still refused") {
  CHECK(parameter(reshape(x(), {3, 2})).is_leaf());
  CHECK(parameter(flatten(x())).is_leaf());
  CHECK(parameter(squeeze(unsqueeze(x(), 0), 0)).is_leaf());
  CHECK(parameter(transpose(x(), 0, 1)).is_leaf());
  CHECK(parameter(permute(x(), {1, 0})).is_leaf());
  CHECK(parameter(narrow(x(), 0, 0, 1)).is_leaf());
  CHECK(parameter(slice(x(), 1, 0, 2)).is_leaf());
  CHECK(parameter(select(x(), 0, 1)).is_leaf());
  const Tensor held = x();
  CHECK_THROWS_AS(parameter(reshape(held, {3, 2})), StateError);
  CHECK_THROWS_AS(parameter(contiguous(held)), StateError);
  CHECK(parameter(add(held, held)).is_leaf());
}

}  // namespace tapehead::tests
