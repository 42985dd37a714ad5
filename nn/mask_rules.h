// What each kind of Mask computes. Internal: users meet Mask alone.
#pragma once

#include <tapehead/nn/mask.h>

#include <memory>
#include <optional>
#include <vector>

namespace tapehead::nn {

struct Mask::Rule {
  virtual ~Rule() = default;
  /// As Mask::hidden: defined, bool, broadcasts to `scores`.
  virtual Tensor hidden(const Shape& scores) const = 0;
  /// As Mask::parts.
  virtual Parts parts(const Shape& scores) const { return {std::nullopt, hidden(scores)}; }
};

namespace mask_rules {

using RulePtr = std::shared_ptr<const Mask::Rule>;

/// Where query 0 stands among the keys: at the offset, or as the alignment says, or, with neither,
/// at key 0 of as many keys as queries.
struct Placement {
  std::optional<Align> align = {};
  std::optional<std::int64_t> offset = {};

  /// The key that query 0 stands at, which may be negative. ShapeError: see above.
  std::int64_t first(const char* operation, const Shape& scores) const;
};

RulePtr causal(Placement placement);
RulePtr window(std::int64_t width, Placement placement);
RulePtr prefix(std::int64_t length);
/// Hides keys, alike for all queries: bool, (S), or (batch, S) spread over the dims between.
RulePtr hidden_keys(Tensor tensor);
RulePtr lengths(std::vector<std::int64_t> lengths);
RulePtr documents(Tensor ids);
RulePtr hidden(Tensor tensor);
/// Of two masks that hide something; `both` when both must let a key be seen.
RulePtr combined(Mask a, Mask b, bool both);
RulePtr prepared(Mask mask, const Shape& scores);

}  // namespace mask_rules
}  // namespace tapehead::nn
