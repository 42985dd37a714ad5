// Functions of two or three tensors that broadcast.
#include "support/operation_case.h"

#include <tapehead/ops/binary.h>
#include <tapehead/ops/compare.h>

namespace tapehead::tests {

Rows binary_rows() {
  // A row in as few lines as it needs. pow's gradient of a broadcast exponent is a sum in which
  // terms cancel, which costs f32 a few more roundings.
  // clang-format off
  return {
      broadcast("add", add, ""),
      broadcast("sub", sub, ""),
      broadcast("mul", mul, "a, b"),
      broadcast("div", div, "b, y", Domain::real, Domain::positive),
      broadcast("maximum", maximum, "a, b", Domain::apart, Domain::apart),
      broadcast("minimum", minimum, "a, b", Domain::apart, Domain::apart),
      broadcast("pow", pow, "a, b, y", Domain::positive).f32_tolerance(16 * 0x1p-24),
      row("where", {mask({2, 3}), real({2, 3}), real({2, 3})},
          [](In x) { return where(x[0], std::move(x[1]), std::move(x[2])); }).saves("condition")
          .also({3}, {2, 3}, {2, 1}).also({2, 1}, {1, 3}, {}).also({}, {}, {2}).also({1}, {}, {})
          .also({0, 3}, {3}, {1, 1}).also({3}, {0, 3}, {3}),
      row("where/scalar", {mask({2, 3}), real({2, 3})},
          [](In x) { return where(x[0], std::move(x[1]), 0.5); }).saves("condition")
          .also({3}, {2, 3}).also({2, 1}, {1, 3}).also({}, {}).also({0, 3}, {3}),
      row("where/scalar_first", {mask({2, 3}), real({2, 3})},
          [](In x) { return where(x[0], 0.5, std::move(x[1])); }).saves("condition")
          .also({3}, {2, 3}).also({2, 1}, {1, 3}).also({}, {}).also({0, 3}, {3}),
  };
  // clang-format on
}

}  // namespace tapehead::tests
