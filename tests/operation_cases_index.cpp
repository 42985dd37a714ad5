// Reading and writing by position or mask.
#include "support/operation_case.h"

#include <tapehead/ops/index.h>
#include <tapehead/ops/masked.h>

namespace tapehead::tests {

Rows index_rows() {
  // A row in as few lines as it needs.
  // clang-format off
  return {
      row("masked_fill", {real({2, 3}), mask({2, 3})},
          [](In x) { return masked_fill(std::move(x[0]), x[1], -1.5); }).saves("mask")
          .also({2, 3}, {3}).also({2, 3}, {2, 1}).also({}, {}).also({1}, {}).also({0, 3}, {3})
          .any_dtype(),
      row("embedding", {real({4, 3}), index({2, 3}, 4)}, [](In x) { return embedding(x[0], x[1]); })
          .saves("indices").also({4, 1}, {}).also({4, 3}, {0}).also({4, 0}, {2}).any_dtype(),
      row("embedding/padding", {real({4, 3}), index({2, 3}, 3)},
          [](In x) { return embedding(x[0], x[1], 3); }).saves("indices").any_dtype(),
      row("index_select", {real({2, 4}), index({6}, 4)},
          [](In x) { return index_select(x[0], 1, x[1]); }).saves("index").also({0, 4}, {2})
          .also({2, 4}, {0}).also({1, 4}, {1}).any_dtype(),
      row("index_add", {real({2, 4}), index({6}, 4), real({2, 6})},
          [](In x) { return index_add(std::move(x[0]), -1, x[1], x[2]); }).saves("index")
          .also({0, 4}, {2}, {0, 2}).also({2, 4}, {0}, {2, 0}).also({1, 4}, {1}, {1, 1}),
      row("gather", {real({3, 4}), index({5, 2}, 3)}, [](In x) { return gather(x[0], 0, x[1]); })
          .saves("index").also({3, 4}, {0, 4}).also({3}, {1}).also({3, 0}, {2, 0}).any_dtype(),
      row("scatter_add", {real({3, 4}), index({5, 2}, 3), real({5, 2})},
          [](In x) { return scatter_add(std::move(x[0]), 0, x[1], x[2]); }).saves("index")
          .also({3, 4}, {0, 4}, {0, 4}).also({3}, {1}, {1}).also({3, 0}, {2, 0}, {2, 0}),
      row("tril", {real({3, 4})}, [](In x) { return tril(std::move(x[0]), 1); }).also({2, 3, 3})
          .also({1, 1}).also({0, 3}).any_dtype(),
      row("triu", {real({3, 4})}, [](In x) { return triu(std::move(x[0]), -1); }).also({2, 3, 3})
          .also({1, 1}).also({0, 3}).any_dtype(),
  };
  // clang-format on
}

}  // namespace tapehead::tests
