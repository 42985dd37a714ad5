// Reductions, running sums, and searches for extreme values.
#include "support/operation_case.h"

#include <tapehead/ops/prod.h>
#include <tapehead/ops/reduce.h>
#include <tapehead/ops/scan.h>
#include <tapehead/ops/search.h>
#include <tapehead/ops/statistics.h>

namespace tapehead::tests {
namespace {

// A reduction of all elements, of the last dim, and of two dims with keepdim.
template <class F>
void add_reduction(Rows& rows, const std::string& name, const std::string& saves, Domain domain,
                   bool of_empty, F f) {
  const Input x{domain, {3, 4}}, cube{domain, {2, 3, 4}};
  OperationCase all = row(name + "/all", {x}, [f](In in) { return f(in[0], Dims{}, false); });
  OperationCase last = row(name + "/last", {x}, [f](In in) { return f(in[0], Dims{-1}, false); });
  OperationCase two = row(name + "/keepdim", {cube}, [f](In in) {
    return f(in[0], Dims{2, 0}, true);
  });
  all.saves(saves).also({}).also({1}).also({2, 1, 3});
  last.saves(saves).also({1}).also({2, 1}).also({0, 3}).also({});
  two.saves(saves).also({1, 3, 1}).also({2, 0, 3});
  if (of_empty) all.also({0, 3}), last.also({3, 0}), two.also({0, 2, 3});
  rows.insert(rows.end(), {all, last, two});
}

}  // namespace

Rows reduce_rows() {
  // A row in as few lines as it needs.
  // clang-format off
  Rows rows{
      row("prod", {real({3, 4})}, [](In x) { return prod(x[0], 1); }).saves("x").also({3, 1})
          .also({0, 4}).also({3, 0}),
      row("prod/keepdim", {real({3, 4, 2})}, [](In x) { return prod(x[0], 1, true); }).saves("x"),
      row("products_of_others", {real({3, 4})}, [](In x) { return products_of_others(x[0], 1); })
          .saves("x").also({3, 1}).also({0, 4}).also({3, 0}),
      row("products_of_others/first_dim", {real({3, 2, 2})},
          [](In x) { return products_of_others(x[0], 0); }).saves("x").also({}),
      row("sum_to", {real({2, 3, 4})}, [](In x) { return sum_to(std::move(x[0]), {3, 1}); })
          .also({3, 4}).also({1, 3, 0}),
      row("cumsum", {real({3, 4})}, [](In x) { return cumsum(x[0], -1); }).also({1}).also({2, 0})
          .also({0, 2}).also({}),
      row("cumsum/first_dim", {real({3, 4})}, [](In x) { return cumsum(x[0], 0); }),
      row("max", {apart({3, 4})},
          [](In x) { return std::vector{max(x[0], 1).values, max(x[0], 0, true).values}; })
          .saves("gather.index, gather.index").also({1, 1}),
      row("min", {apart({3, 4})}, [](In x) { return min(x[0], -1).values; }).saves("gather.index")
          .also({2, 1}).also({0, 3}),
      row("topk", {apart({3, 4})}, [](In x) { return topk(x[0], 2).values; }).saves("gather.index")
          .also({2, 2}).also({0, 3}),
  };
  // clang-format on
  const auto corrected = [](auto f, double correction) {
    return [=](const Tensor& x, const Dims& dims, bool keepdim) {
      return f(x, dims, correction, keepdim);
    };
  };
  const auto with_power = [](double p) {
    return
        [=](const Tensor& x, const Dims& dims, bool keepdim) { return norm(x, p, dims, keepdim); };
  };
  add_reduction(rows, "sum", "", Domain::real, true, sum);
  add_reduction(rows, "mean", "", Domain::real, false, mean);
  add_reduction(rows, "amax", "x, y", Domain::apart, false, amax);
  add_reduction(rows, "amin", "x, y", Domain::apart, false, amin);
  add_reduction(rows, "var", "x", Domain::real, false, corrected(var, 0));
  add_reduction(rows, "std", "x, y", Domain::real, false, corrected(tapehead::std, -0.5));
  add_reduction(rows, "logsumexp", "x, y", Domain::real, true, logsumexp);
  add_reduction(rows, "norm", "x, y", Domain::real, false, with_power(2));
  return rows;
}

}  // namespace tapehead::tests
