// Views, copies and joins: they move elements and save nothing.
#include "support/operation_case.h"

#include <tapehead/ops/diagonal.h>
#include <tapehead/ops/join.h>
#include <tapehead/ops/views.h>
#include <tapehead/ops/windows.h>

namespace tapehead::tests {

Rows view_rows() {
  // A row in as few lines as it needs.
  // clang-format off
  Rows rows{
      row("reshape", {real({2, 6})}, [](In x) { return reshape(x[0], {3, -1}); }).also({3})
          .also({3, 1, 1}).also({3, 0}),
      row("reshape/scalar", {real({1})}, [](In x) { return reshape(x[0], {}); }).also({})
          .also({1, 1}),
      row("flatten", {real({2, 3, 2})}, [](In x) { return flatten(x[0], 0, -1); }).also({})
          .also({1}).also({0, 3}),
      row("flatten/inner", {real({2, 3, 2})}, [](In x) { return flatten(x[0], 1, 2); })
          .also({2, 0, 3}),
      row("squeeze", {real({2, 1, 3})}, [](In x) { return squeeze(x[0]); }).also({1}).also({})
          .also({1, 0}),
      row("squeeze/dim", {real({2, 1, 3})}, [](In x) { return squeeze(x[0], -2); }).also({2, 3})
          .also({1, 1}),
      row("unsqueeze", {real({2, 3})}, [](In x) { return unsqueeze(x[0], -1); }).also({}).also({1})
          .also({0, 3}),
      row("transpose", {real({2, 3})}, [](In x) { return transpose(x[0], 0, -1); }).also({2, 3, 4})
          .also({1, 1}).also({0, 3}).also({}),
      row("permute", {real({2, 3, 4})}, [](In x) { return permute(x[0], {2, 0, -2}); })
          .also({1, 1, 1}).also({2, 0, 3}),
      row("expand", {real({3, 1})}, [](In x) { return expand(x[0], {2, 3, 4}); }).also({1}).also({})
          .also({3, 4}),
      row("expand/empty", {real({1, 3})}, [](In x) { return expand(x[0], {0, -1}); }).also({0, 3}),
      row("narrow", {real({2, 5})}, [](In x) { return narrow(x[0], 1, 1, 3); }).also({1, 4})
          .also({0, 4}),
      row("narrow/nothing", {real({2, 5})}, [](In x) { return narrow(x[0], 1, 2, 0); }),
      row("slice", {real({7, 2})}, [](In x) { return slice(x[0], 0, 1, -1, 3); }).also({1, 2})
          .also({0, 2}).also({3}),
      row("slice/default", {real({5})}, [](In x) { return slice(x[0], 0); }),
      row("slice_backward", {real({2, 2})},
          [](In x) { return slice_backward(x[0], {7, 2}, 0, 1, 3); }),
      row("select", {real({2, 3})}, [](In x) { return select(x[0], -1, -2); }).also({3})
          .also({0, 3}),
      row("split", {real({5, 2})}, [](In x) { return split(x[0], 2); }).also({1}).also({0, 2}),
      row("split/sizes", {real({2, 5})},
          [](In x) { return split(x[0], std::vector<std::int64_t>{1, 0, 4}, 1); }).also({0, 5}),
      row("chunk", {real({2, 5})}, [](In x) { return chunk(x[0], 3, -1); }).also({1}).also({0}),
      row("diagonal", {real({3, 4})}, [](In x) { return diagonal(x[0]); }).also({2, 3, 4})
          .also({1, 1}).also({0, 3}),
      row("diagonal_backward", {real({3})},
          [](In x) { return diagonal_backward(x[0], {3, 4}, 0, 1); }),

      row("clone", {real({2, 3})}, [](In x) { return clone(x[0]); }).also({}).also({1})
          .also({0, 3}),
      row("contiguous", {real({2, 3})}, [](In x) { return contiguous(x[0]); }).also({}).also({1})
          .also({0, 3}),
      row("cat", {real({2, 3}), real({1, 3})}, [](In x) { return cat({x[0], x[1]}); })
          .also({0, 3}, {2, 3}).also({1}, {1}).also({0}, {0}),
      row("cat/same", {real({2, 3}), real({2, 2})},
          [](In x) { return cat({x[0], x[1], x[0]}, -1); }),
      row("stack", {real({2, 3}), real({2, 3})}, [](In x) { return stack({x[0], x[1]}, -1); })
          .also({}, {}).also({1}, {1}).also({0, 3}, {0, 3}),
      row("repeat", {real({2, 3})}, [](In x) { return repeat(x[0], {2, 1, 3}); }).also({}).also({1})
          .also({0, 3}),
      row("repeat/nothing", {real({2, 3})}, [](In x) { return repeat(x[0], {0, 2}); }),
      row("flip", {real({2, 3})}, [](In x) { return flip(x[0], {-1, 0}); }).also({1, 1})
          .also({0, 3}).also({2, 3, 2}),
  };
  // clang-format on
  for (OperationCase& each : rows) each.any_dtype();
  return rows;
}

}  // namespace tapehead::tests
