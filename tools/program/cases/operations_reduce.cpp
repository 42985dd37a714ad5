// Reductions and linear algebra.
#include <tapehead/ops/einsum.h>
#include <tapehead/ops/matmul.h>
#include <tapehead/ops/prod.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/statistics.h>

#include "operations.h"

namespace tapehead::program {
namespace {

// For operations with the arguments dim and keepdim.
template <class F>
auto over_dims(F f) {
  return [f](Call& c) {
    const Dims dims = c.reduced_dims();
    return f(c["x"], dims, c.truth("keepdim"));
  };
}

// The same with a correction.
template <class F>
auto corrected(F f) {
  return [f](Call& c) {
    const Dims dims = c.reduced_dims();
    const bool keepdim = c.truth("keepdim");
    return f(c["x"], dims, c.number("correction"), keepdim);
  };
}

}  // namespace

void add_reductions(Operations& t) {
  t.add("sum", over_dims([](auto&&... of) { return sum(of...); }));
  t.add("mean", over_dims([](auto&&... of) { return mean(of...); }));
  t.add("amax", over_dims([](auto&&... of) { return amax(of...); }));
  t.add("amin", over_dims([](auto&&... of) { return amin(of...); }));
  t.add("logsumexp", over_dims([](auto&&... of) { return logsumexp(of...); }));
  t.add("var", corrected([](auto&&... of) { return var(of...); }));
  t.add("std", corrected([](auto&&... of) { return std(of...); }));
  t.add("prod", [](Call& c) { return prod(c["x"], c.integer("dim"), c.truth("keepdim")); });
  t.add("cumsum", [](Call& c) { return cumsum(c["x"], c.integer("dim")); });
  t.add("argmax",
        [](Call& c) { return argmax(c["x"], c.optional_integer("dim"), c.truth("keepdim")); });
}

void add_linear_algebra(Operations& t) {
  t.add("matmul", [](Call& c) { return matmul(c["a"], c["b"]); });
  t.add("outer", [](Call& c) { return outer(c["a"], c["b"]); });
  t.add("dot", [](Call& c) { return dot(c["a"], c["b"]); });
  t.add("einsum", [](Call& c) { return einsum(c.text("equation"), c.numbered("t")); });
}

}  // namespace tapehead::program
